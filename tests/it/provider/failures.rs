use std::sync::Arc;

use pes::domain::model::{Delta, FailureKind, ModelFailure};
use rstest::rstest;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::{ask, openai, stop_chunk, text_chunk};
use crate::support::wire::{Step, Wire, answer, end, event, event_stream};

/// The failure of a call that gets these steps, and the text that came before it.
async fn fails(steps: Vec<Step>) -> (String, ModelFailure) {
    let wire = Wire::serve(vec![steps]).await;
    let model = openai(&wire, |models| {
        models.header_timeout_ms = 300;
        models.stall_timeout_ms = 300;
        models.reply_bytes = 10_000;
    });
    let (said, ended) = ask(&model).await;
    assert_eq!(wire.waiting(), 1, "a failed call is not sent again");
    let texts = said.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        Delta::Thinking(_) | Delta::ToolCall { .. } | Delta::Replay(_) | Delta::Usage(_) | Delta::Stop(_) => None,
    });
    (texts.collect(), ended.unwrap_err())
}

#[rstest]
#[case::no_key("401 Unauthorized", "", FailureKind::Refused, None)]
#[case::unknown_model("404 Not Found", "", FailureKind::Refused, None)]
#[case::too_fast("429 Too Many Requests", "retry-after: 3\r\n", FailureKind::Retry, Some(3000))]
#[case::milliseconds("429 Too Many Requests", "retry-after-ms: 40\r\nretry-after: 3\r\n", FailureKind::Retry, Some(40))]
#[case::busy("503 Service Unavailable", "", FailureKind::Retry, None)]
#[case::elsewhere("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", FailureKind::Refused, None)]
#[tokio::test]
async fn a_status_says_what_can_be_done(
    #[case] status: &str,
    #[case] headers: &str,
    #[case] kind: FailureKind,
    #[case] retry_after_ms: Option<i64>,
) {
    let (_, failure) = fails(answer(status, headers, r#"{"error":{"message":"about key sk-secret"}}"#)).await;
    assert_eq!((failure.kind, failure.retry_after_ms), (kind, retry_after_ms));
    assert_eq!(failure.http_status, status[..3].parse().ok());
    assert!(failure.message.ends_with("about key [redacted]"), "{}", failure.message);
}

#[rstest]
#[case::cut_before_an_answer(vec![Step::Cut], "", FailureKind::Incomplete)]
#[case::cut_in_the_middle(vec![event_stream(), text_chunk("some"), Step::Cut], "some", FailureKind::Incomplete)]
#[case::cut_after_the_stop(vec![event_stream(), text_chunk("all"), stop_chunk(), Step::Cut], "all", FailureKind::Incomplete)]
#[case::ended_without_a_stop(vec![event_stream(), text_chunk("some"), end()], "some", FailureKind::Incomplete)]
#[case::done_without_a_stop(vec![event_stream(), text_chunk("a"), event("[DONE]"), end()], "a", FailureKind::Incomplete)]
#[case::torn_chunk(vec![event_stream(), text_chunk("a"), Step::Raw(b"zz\r\n".to_vec())], "a", FailureKind::Incomplete)]
#[case::not_http(vec![Step::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())], "", FailureKind::Incomplete)]
#[case::not_json(vec![event_stream(), text_chunk("a"), event("<html>")], "a", FailureKind::Broken)]
#[case::not_text(vec![event_stream(), Step::Chunk(b"data: \xff\n\n".to_vec())], "", FailureKind::Broken)]
#[case::a_page(answer("200 OK", "content-type: text/html\r\n", "<html>log in</html>"), "", FailureKind::Refused)]
#[case::overloaded(vec![event_stream(), text_chunk("a"), event(r#"{"error":{"message":"x","code":529}}"#)], "a", FailureKind::Retry)]
#[tokio::test]
async fn a_reply_that_breaks_is_told_apart(#[case] steps: Vec<Step>, #[case] text: &str, #[case] kind: FailureKind) {
    let (said, failure) = fails(steps).await;
    assert_eq!((said.as_str(), failure.kind), (text, kind), "{}", failure.message);
}

#[tokio::test]
async fn a_key_in_the_middle_of_a_stream_is_not_told() {
    let error = event(r#"{"error":{"message":"the key sk-secret is no longer valid","code":401}}"#);
    let (_, failure) = fails(vec![event_stream(), text_chunk("a"), error]).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(failure.message, "the provider broke off: the key [redacted] is no longer valid");
}

#[tokio::test]
async fn silence_is_bounded() {
    let gone = || Step::Stall(Arc::new(Notify::new()));
    let (_, failure) = fails(vec![gone()]).await;
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Retry, "no answer within 300 ms"));
    let (said, failure) = fails(vec![event_stream(), text_chunk("some"), gone()]).await;
    assert_eq!((said.as_str(), failure.kind), ("some", FailureKind::Incomplete));
    assert_eq!(failure.message, "nothing came for 300 ms");
}

#[tokio::test]
async fn a_reply_may_not_take_for_ever() {
    let gone = Arc::new(Notify::new());
    let wire = Wire::serve(vec![vec![event_stream(), text_chunk("some"), Step::Stall(gone.clone())]]).await;
    let (_, ended) = ask(&openai(&wire, |models| models.total_timeout_ms = 300)).await;
    assert_eq!(ended.unwrap_err().message, "the answer took longer than 300 ms");
    gone.notified().await;
}

#[tokio::test]
async fn a_reply_may_not_be_endless() {
    let flood = std::iter::repeat_n(text_chunk(&"x".repeat(100)), 200);
    let (said, failure) = fails([event_stream()].into_iter().chain(flood).collect()).await;
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Broken, "the answer is larger than 10000 bytes")
    );
    assert!(said.len() < 10_000);
}

#[tokio::test]
async fn comments_do_not_keep_a_reply_alive_for_ever() {
    let comments = std::iter::repeat_n(Step::Chunk(b": still there\n\n".to_vec()), 1000);
    let (_, failure) = fails([event_stream()].into_iter().chain(comments).collect()).await;
    assert_eq!(failure.message, "the answer is larger than 10000 bytes");
}

#[tokio::test]
async fn a_closed_port_is_worth_another_try() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let wire = Wire::serve(Vec::new()).await;
    let (_, ended) = ask(&openai(&wire, |models| models.openai.base_url = Some(closed))).await;
    let failure = ended.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Retry);
    assert!(failure.message.starts_with("cannot reach") && failure.message.contains("refused"), "{}", failure.message);
}
