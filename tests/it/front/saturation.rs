//! Too many concurrent calls to one model.

use std::sync::Arc;

use pes::config::{Config, ConfiguredKey, Provider};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::app::App;
use crate::support::wire::{Step, Wire, says};

fn one_place(wire: &Wire) -> impl FnOnce(&mut Config) + use<> {
    let url = wire.url();
    move |config| {
        config.models.openai.base_url = Some(url);
        (config.models.gate.per_provider, config.models.gate.queue) = (1, 0);
    }
}

pub fn direct() -> Vec<Step> {
    says(&json!({"title": "t", "intent": "i", "plan": "p", "answer": "ok", "todoList": []}).to_string())
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

#[tokio::test]
async fn a_check_of_the_models_takes_a_place() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let app = App::with(one_place(&wire)).await;
    app.post("/threads/t1/process", json!({ "query": "one" })).await.expect(202);
    wire.request().await;
    let check = app.get("/models?check=true").await.expect(200)["items"][0]["check"].clone();
    assert_eq!((&check["status"], wire.waiting()), (&json!("busy"), 0), "{check}");
    assert_eq!(check["detail"], "too many calls wait for this provider already");
}

/// A tenant with its own key for one provider calls the others with the server's key and within its permits.
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
    ask("key-b-0123456789abcdef").send().await.problem("provider_saturated");
    assert_eq!(wire.waiting(), 0);
}

/// An acknowledged run waits for its permit, longer than any call may take and behind all others.
#[tokio::test]
async fn every_acknowledged_run_completes_and_another_tenant_finds_room() {
    const RUNS: usize = 40;
    let gate = Arc::new(Notify::new());
    let first = [vec![Step::Until(gate.clone())], direct()].concat();
    let wire = Wire::serve([vec![first], vec![direct(); RUNS]].concat()).await;
    let url = wire.url();
    let app = App::with(|config| {
        let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![key("one:admin:key-a-0123456789abcdef"), key("two:admin:key-b-0123456789abcdef")];
        config.models.openai.base_url = Some(url);
        (config.models.gate.per_provider, config.models.gate.queue) = (1, 16);
        (config.models.gate.queue_ms, config.models.retry_ms) = (1, 0);
    })
    .await;
    let ask = |key: &'static str, n: usize| {
        app.ask("POST", &format!("/threads/t{n}/process")).key(key).json(&json!({ "query": "hi" })).send()
    };
    let mut accepted = Vec::new();
    for n in 0..RUNS {
        let said = ask("key-a-0123456789abcdef", n).await;
        if said.status == 202 {
            accepted.push(said.json()["runUrl"].as_str().unwrap().to_owned());
        } else {
            said.problem("provider_saturated");
        }
    }
    assert!((2..RUNS).contains(&accepted.len()), "{} were accepted", accepted.len());
    ask("key-b-0123456789abcdef", 0).await.expect(202);
    gate.notify_one();
    for url in accepted {
        let run = app.ask("GET", &format!("{url}?wait=30")).key("key-a-0123456789abcdef").send().await.expect(200);
        assert_eq!(run["status"], "completed", "{run:#}");
    }
}
