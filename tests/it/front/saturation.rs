//! A model that is asked too often at once.

use std::sync::Arc;

use pes::config::{Config, ConfiguredKey, Provider};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::app::App;
use crate::support::wire::{Step, Wire};

fn one_place(wire: &Wire) -> impl FnOnce(&mut Config) + use<> {
    let url = wire.url();
    move |config| {
        config.models.openai.base_url = Some(url);
        (config.models.gate.per_provider, config.models.gate.queue) = (1, 0);
    }
}

#[tokio::test]
async fn a_full_queue_is_told_at_the_door_and_in_the_list_of_models() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let app = App::with(one_place(&wire)).await;
    let models = app.get("/models").await.expect(200);
    assert_eq!(models["items"][0]["health"], json!({ "breaker": "closed", "running": 0, "waiting": 0 }));
    app.post("/threads/t1/process", json!({ "query": "one" })).await.expect(202);
    wire.request().await;
    let problem = app.post("/threads/t2/process", json!({ "query": "two" })).await.problem("provider_saturated");
    assert_eq!(problem["retryable"], true);
    app.get("/threads/t2").await.problem("not_found");
    assert_eq!(app.get("/models").await.expect(200)["items"][0]["health"]["running"], 1);
    let text = app.get("/metrics").await.text();
    assert!(text.contains(r#"pes_provider_running_calls{provider="openai"} 1"#), "{text}");
    assert!(text.contains(r#"pes_provider_breaker_open{provider="openai"} 0"#), "{text}");
}

/// Whoever has a key of its own for one provider calls the others with the server's, which has so many places as it has.
#[tokio::test]
async fn a_key_of_ones_own_counts_for_its_provider_alone() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let url = wire.url();
    let app = App::with(|config| {
        let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![key("one:admin:key-a-0123456789abcdef"), key("two:admin:key-b-0123456789abcdef")];
        let at = |url: String| Provider { base_url: Some(url), ..Provider::default() };
        let providers = [("a", "http://127.0.0.1:9/v1".to_owned()), ("b", url)];
        config.models.providers.extend(providers.map(|(name, url)| (name.to_owned(), at(url))));
        config.models.tenant_keys = serde_json::from_value(json!({"two": {"a": "sk-of-two"}})).unwrap();
        (config.models.gate.per_key, config.models.gate.queue, config.models.retry_ms) = (1, 0, 0);
    })
    .await;
    let of_b = json!({"query": "hi", "options": {"providerConfig": {"providerName": "b", "modelId": "m"}}});
    let ask = |key| app.ask("POST", "/threads/t/process").key(key).json(&of_b);
    ask("key-a-0123456789abcdef").send().await.expect(202);
    wire.request().await;
    let run = ask("key-b-0123456789abcdef").header("prefer", "wait=30").send().await.expect(200);
    assert_eq!(run["metadata"]["error"]["code"], "provider_saturated", "{run:#}");
    assert_eq!(wire.waiting(), 0);
}
