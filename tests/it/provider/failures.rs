//! The error messages and time limits that the table of faults does not cover.

use std::sync::Arc;

use pes::domain::model::{Delta, FailureKind, ModelFailure};
use tokio::sync::Notify;

use super::{ask, openai, stop_chunk, text_chunk};
use crate::support::wire::{Step, Wire, event, event_stream};

/// The failure of a call that gets these steps, and the text before it.
async fn fails(steps: Vec<Step>) -> (String, ModelFailure) {
    let wire = Wire::serve(vec![steps]).await;
    let model = openai(&wire, |models| {
        models.header_timeout_ms = 40_000;
        models.stall_timeout_ms = 30_000;
        models.reply_bytes = 10_000;
    });
    let (said, ended) = ask(&model).await;
    assert_eq!(wire.waiting(), 1, "a failed call is not sent again");
    let texts = said.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        Delta::Thinking(_)
        | Delta::WasThinking
        | Delta::ToolCall { .. }
        | Delta::Replay(_)
        | Delta::Usage(_)
        | Delta::Stop(_) => None,
    });
    (texts.collect(), ended.unwrap_err())
}

#[tokio::test]
async fn a_key_in_the_middle_of_a_stream_is_not_told() {
    let error = event(r#"{"error":{"message":"the key sk-secret is no longer valid","code":401}}"#);
    let (_, failure) = fails(vec![event_stream(), text_chunk("a"), error]).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(failure.message, "the provider broke off: the key [redacted] is no longer valid");
}

/// Tokens sent one per chunk take more bytes on the wire than the reply itself.
#[tokio::test]
async fn the_reply_is_counted_and_not_its_envelopes() {
    let envelope = format!(r#"{{"id":"{}","choices":[{{"index":0,"delta":{{"content":"word"}}}}]}}"#, "i".repeat(200));
    let stream = |tokens| [vec![event_stream()], vec![event(&envelope); tokens]].concat();
    let wire = Wire::serve(vec![[stream(2_400), vec![stop_chunk(), event("[DONE]")]].concat()]).await;
    let (said, ended) = ask(&openai(&wire, |models| models.reply_bytes = 10_000)).await;
    assert_eq!((ended, said.iter().map(Delta::size).sum::<usize>()), (Ok(()), 9_600));

    let (said, failure) = fails(stream(2_501)).await;
    assert_eq!((said.len(), failure.kind), (10_000, FailureKind::TooLarge));
    assert_eq!(failure.message, "the reply is larger than 10000 bytes");
}

#[tokio::test(start_paused = true)]
async fn silence_is_bounded() {
    let gone = || Step::Stall(Arc::new(Notify::new()));
    let (_, failure) = fails(vec![gone()]).await;
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Retry, "no answer within 40000 ms"));
    let (said, failure) = fails(vec![event_stream(), text_chunk("some"), gone()]).await;
    assert_eq!((said.as_str(), failure.kind), ("some", FailureKind::Incomplete));
    assert_eq!(failure.message, "nothing came for 30000 ms");
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_not_take_for_ever() {
    let gone = Arc::new(Notify::new());
    let wire = Wire::serve(vec![vec![event_stream(), text_chunk("some"), Step::Stall(gone.clone())]]).await;
    let (_, ended) = ask(&openai(&wire, |models| models.total_timeout_ms = 1_500)).await;
    assert_eq!(ended.unwrap_err().message, "the answer took longer than 1500 ms");
    gone.notified().await;
}
