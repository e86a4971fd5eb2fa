use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use pes::domain::model::{Delta, ModelRequest};
use pes::provider::Catalog;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::exchange::reply;
use super::speech::Speech;
use super::{ask, ask_for, openai, request, stop_chunk, text_chunk};
use crate::support::wire::{Step, Wire, end, event_stream};

/// Cassettes whose reply depends on the request; the tests beside the wire read them.
const SPECIAL: [&str; 3] = ["form", "deepseek_tools", "openrouter_details"];

#[rstest]
#[tokio::test]
async fn every_cassette_arrives_byte_by_byte(#[values("openai", "anthropic", "gemini", "ollama")] provider: &str) {
    let speech = Speech::of(provider);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes").join(provider);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let is_special = SPECIAL.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name));
        path.extension().is_some_and(|extension| extension == speech.extension) && !is_special
    });
    let steps = |path| {
        let chunks = fs::read(path).unwrap().into_iter().map(|byte| Step::Chunk(vec![byte]));
        [speech.head()].into_iter().chain(chunks).chain([end()]).collect()
    };
    let mut wire = Wire::serve(paths.iter().map(steps).collect()).await;
    let model = speech.at(&wire);
    for path in &paths {
        let expected: Value = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        let named = expected["replay"]["model"].as_str().unwrap_or("some-model").to_owned();
        let (said, ended) = ask_for(&model, ModelRequest { model: named.clone(), ..request() }).await;
        assert_eq!(ended, Ok(()), "{}", path.display());
        assert_eq!(reply(said), expected, "{}", path.display());
        assert_eq!(wire.request().await.body, asked(provider, &named), "{}", path.display());
    }
    assert_eq!(wire.connections(), 1, "a finished call leaves its connection to the next");
}

#[rstest]
#[tokio::test]
async fn the_request_is_sent_once_with_its_key_and_asks_for_a_stream(
    #[values("openai", "anthropic", "gemini", "ollama")] provider: &str,
) {
    let speech = Speech::of(provider);
    let steps = [vec![speech.head()], speech.whole("hi"), vec![end()]].concat();
    let mut wire = Wire::serve(vec![steps]).await;
    ask(&speech.at(&wire)).await.1.unwrap();
    let sent = wire.request().await;
    assert_eq!(sent.line, format!("POST {} HTTP/1.1", speech.path));
    let (name, value) = speech.key;
    assert_eq!(sent.header(name), Some(value));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.body, asked(provider, "some-model"));
    assert_eq!(wire.waiting(), 0);
}

/// The body built from `request()`.
fn asked(provider: &str, model: &str) -> Value {
    let system = "Phase: synthesis\nYou answer.";
    let both = json!([{"role": "system", "content": system}, {"role": "user", "content": "How much?"}]);
    match provider {
        "openai" => json!({
            "model": model, "messages": both, "stream": true, "stream_options": {"include_usage": true},
        }),
        "anthropic" => json!({
            "model": model,
            "max_tokens": if model.starts_with("claude") { 64_000 } else { 8_192 },
            "stream": true,
            "system": system,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "How much?"}]}],
        }),
        "gemini" => json!({
            "contents": [{"role": "user", "parts": [{"text": "How much?"}]}],
            "systemInstruction": {"parts": [{"text": system}]},
            "generationConfig": {"thinkingConfig": {"includeThoughts": true}},
        }),
        _ => json!({"model": model, "messages": both, "stream": true, "options": {"num_ctx": 16_384}}),
    }
}

#[tokio::test]
async fn a_vendor_is_called_where_its_row_says() {
    let mut wire = Wire::serve(vec![vec![event_stream(), stop_chunk(), end()]]).await;
    let mut models = pes::config::Models::default();
    let provider = pes::config::Provider {
        base_url: Some(wire.url()),
        api_key: None,
        model: Some("magistral".into()),
        dialect: Some("mistral".into()),
    };
    models.providers.insert("mine".into(), provider);
    let models = pes::provider::Models::new(&models).unwrap();
    assert_eq!(models.default_model(), ("mine".into(), "magistral".into()));
    let asked = ModelRequest { params: json!({"seed": 1, "maxTokens": 5}).as_object().cloned().unwrap(), ..request() };
    ask_for(&models.model("mine").unwrap(), asked).await.1.unwrap();
    let body = wire.request().await.body;
    assert_eq!((&body["random_seed"], &body["max_tokens"], body.get("stream_options")), (&json!(1), &json!(5), None));
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
