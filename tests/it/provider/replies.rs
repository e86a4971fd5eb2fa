use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use pes::domain::model::Delta;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{ask, openai, reply, request, stop_chunk, text_chunk};
use crate::support::wire::{Step, Wire, end, event_stream};

#[tokio::test]
async fn every_cassette_arrives_byte_by_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes/openai");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sse"));
    let steps = |path| {
        let chunks = fs::read(path).unwrap().into_iter().map(|byte| Step::Chunk(vec![byte]));
        [event_stream()].into_iter().chain(chunks).chain([end()]).collect()
    };
    let wire = Wire::serve(paths.iter().map(steps).collect()).await;
    let model = openai(&wire, |_| {});
    for path in &paths {
        let (said, ended) = ask(&model).await;
        assert_eq!(ended, Ok(()), "{}", path.display());
        let expected: Value = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert_eq!(reply(said), expected, "{}", path.display());
    }
    assert_eq!(wire.connections(), 1, "a finished call leaves its connection to the next");
}

#[tokio::test]
async fn the_request_is_sent_once_with_its_key_and_asks_for_a_stream() {
    let mut wire = Wire::serve(vec![vec![event_stream(), text_chunk("hi"), stop_chunk(), end()]]).await;
    ask(&openai(&wire, |_| {})).await.1.unwrap();
    let sent = wire.request().await;
    assert_eq!(sent.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(sent.header("authorization"), Some("Bearer sk-secret"));
    let expected = json!({
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "Phase: synthesis\nYou answer."},
            {"role": "user", "content": "How much?"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(sent.body, expected);
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test]
async fn an_endpoint_of_ones_own_is_called_without_a_key() {
    let mut wire = Wire::serve(vec![vec![event_stream(), stop_chunk(), end()]]).await;
    ask(&openai(&wire, |models| models.openai.api_key = None)).await.1.unwrap();
    assert_eq!(wire.request().await.header("authorization"), None);
}

#[tokio::test]
async fn tokens_arrive_as_they_are_sent() {
    let told = Arc::new(Notify::new());
    let steps =
        vec![event_stream(), text_chunk("one"), Step::Until(told.clone()), text_chunk("two"), stop_chunk(), end()];
    let wire = Wire::serve(vec![steps]).await;
    let mut stream = openai(&wire, |_| {}).call(request()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("one".into()))));
    told.notify_one();
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("two".into()))));
}

#[tokio::test]
async fn dropping_the_stream_hangs_up() {
    let gone = Arc::new(Notify::new());
    let wire = Wire::serve(vec![vec![event_stream(), text_chunk("one"), Step::Stall(gone.clone())]]).await;
    let mut stream = openai(&wire, |_| {}).call(request()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    gone.notified().await;
}

#[tokio::test]
async fn a_server_that_never_hangs_up_after_its_last_word_is_not_waited_for() {
    let gone = Arc::new(Notify::new());
    let done = Step::Chunk(b"data: [DONE]\n\n".to_vec());
    let wire =
        Wire::serve(vec![vec![event_stream(), text_chunk("a"), stop_chunk(), done, Step::Stall(gone.clone())]]).await;
    ask(&openai(&wire, |_| {})).await.1.unwrap();
    gone.notified().await;
}
