//! Which models answer a check, and which settings are refused when a thread or run is created.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use pes::config::{self, ConfiguredKey, Provider};
use pes::domain::fault::Fault;
use pes::domain::model::{ModelFailure, ModelRequest};
use pes::provider::gate::CallPass;
use pes::provider::{self, ChatModel, CheckStatus, DeltaStream, Models};
use serde_json::{Map, Value, json};

use super::{stop_chunk, text_chunk};
use crate::support::app::App;
use crate::support::unused_address::unused_address;
use crate::support::wire::{Wire, answer, end, event_stream};

fn provider(base_url: String) -> Provider {
    let api_key = serde_json::from_value(json!("sk-canary-0123")).unwrap();
    Provider { base_url: Some(base_url), api_key: Some(api_key), model: Some("m".into()), dialect: None }
}

#[tokio::test]
async fn each_model_says_whether_it_answers_and_why_not_without_its_key() {
    let echo = r#"{"error":{"message":"wrong key sk-canary-0123"}}"#;
    let good = Wire::serve(vec![vec![event_stream(), text_chunk("ok"), stop_chunk(), end()]]).await;
    let locked = Wire::serve(vec![answer("401 Unauthorized", "", echo)]).await;
    let strange = Wire::serve(vec![answer("404 Not Found", "", r#"{"error":{"message":"no model m"}}"#)]).await;
    let busy = Wire::serve(vec![answer("429 Too Many Requests", "", echo)]).await;
    let (closed, _held) = unused_address();
    let closed = format!("http://{closed}");
    let app = App::with(|config| {
        let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys =
            vec![key("one:read+run:runner-0123456789abcdef01"), key("one:read:reader-0123456789abcdef01")];
        for (name, url) in [
            ("good", good.url()),
            ("locked", locked.url()),
            ("strange", strange.url()),
            ("busy", busy.url()),
            ("closed", closed),
        ] {
            config.models.providers.insert(name.into(), provider(url));
        }
    })
    .await;
    app.ask("GET", "/models?check=true").key("reader-0123456789abcdef01").send().await.problem("forbidden");
    let said = app.ask("GET", "/models?check=true").key("runner-0123456789abcdef01").send().await;
    assert!(!said.text().contains("canary"), "{}", said.text());
    let items = said.expect(200)["items"].clone();
    let status = |provider: &str| {
        let items = items.as_array().unwrap();
        items.iter().find(|item| item["provider"] == provider).unwrap()["check"]["status"].clone()
    };
    let expected = [
        ("good", "ok"),
        ("locked", "key_refused"),
        ("strange", "model_unknown"),
        ("busy", "busy"),
        ("closed", "unreachable"),
    ];
    for (provider, expected) in expected {
        assert_eq!(status(provider), expected, "{provider}: {items:#}");
    }
    let unasked = app.ask("GET", "/models").key("reader-0123456789abcdef01").send().await.expect(200);
    assert_eq!(unasked["items"][0].get("check"), None);
}

/// Hangs.
struct Silent {
    is_local: bool,
}

#[async_trait]
impl ChatModel for Silent {
    async fn call(&self, _: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        std::future::pending().await
    }

    fn admit(&self, _: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }

    fn is_local(&self) -> bool {
        self.is_local
    }
}

#[tokio::test(start_paused = true)]
async fn a_local_model_has_longer_to_answer_because_it_may_be_loaded_first() {
    for (is_local, patience) in [(false, 20), (true, 60)] {
        let models = Models::only("p", "m", Arc::new(Silent { is_local }));
        let began = tokio::time::Instant::now();
        let checked = provider::check(&models, "t", |_| ready(Ok(CallPass::without_gate()))).await;
        let checked = checked[0].info.check.clone().unwrap();
        assert_eq!((checked.status, began.elapsed().as_secs()), (CheckStatus::Unreachable, patience));
        assert_eq!(checked.detail, Some(format!("no answer within {patience} s")));
    }
}

#[tokio::test]
async fn what_no_provider_takes_is_refused_when_the_thread_or_the_run_is_created() {
    let app = App::with(|config| {
        config.models.choice = vec!["demo:demo-scripted".parse().unwrap()];
        config.models.anthropic =
            config::Anthropic { base_url: Some("http://127.0.0.1:9".into()), ..config::Anthropic::default() };
        config.models.openai.api_key = Some("sk-of-the-server".to_owned().into());
    })
    .await;
    let table: [(Value, &str); 6] = [
        (
            json!({"providerName": "openai", "modelId": "gpt-5", "adapterOptions": {"temperature": 0.2}}),
            "providerConfig/adapterOptions/temperature",
        ),
        (
            json!({"providerName": "openai", "modelId": "gpt-4o", "adapterOptions": {"reasoningEffort": "low"}}),
            "providerConfig/adapterOptions/reasoningEffort",
        ),
        (json!({"providerName": "nobody"}), "providerConfig/providerName"),
        (json!({"providerName": "anthropic", "modelId": " "}), "providerConfig/modelId"),
        (json!({"providerName": "anthropic", "adapterOptions": {"seed": 1}}), "providerConfig/adapterOptions/seed"),
        (
            json!({"providerName": "anthropic", "modelId": "claude-opus-4-7", "adapterOptions": {"temperature": 1}}),
            "providerConfig/adapterOptions/temperature",
        ),
    ];
    for (provider, pointer) in table {
        let config = json!({"config": {"providerConfig": provider}});
        let problem = app.post("/threads", config.clone()).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/config/{pointer}"), "{problem:#}");
        let run = json!({"query": "hi", "options": {"providerConfig": provider}});
        app.post("/threads/t/process", run).await.problem("invalid");
    }
    app.get("/threads/t").await.problem("not_found");
    app.post("/threads", json!({"threadId": "kept"})).await.expect(201);
    let patch = json!({"config": {"providerConfig": {"providerName": "nobody"}}});
    app.ask("PATCH", "/threads/kept")
        .typed("application/merge-patch+json", &patch.to_string())
        .send()
        .await
        .problem("invalid");
}

#[tokio::test]
async fn a_tenants_runs_use_its_own_key() {
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "answer": "ok", "todoList": []}).to_string();
    let replied = || vec![event_stream(), text_chunk(&plan), stop_chunk(), end()];
    let mut wire = Wire::serve(vec![replied(), replied(), replied()]).await;
    let app = App::with(|config| {
        let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![key("one:admin:key-a-0123456789abcdef"), key("two:admin:key-b-0123456789abcdef")];
        config.models.openai.base_url = Some(wire.url());
        config.models.openai.api_key = Some("sk-of-the-server".to_owned().into());
        config.models.tenant_keys = serde_json::from_value(json!({"two": {"openai": "sk-of-two"}})).unwrap();
    })
    .await;
    for (key, expected) in
        [("key-a-0123456789abcdef", "Bearer sk-of-the-server"), ("key-b-0123456789abcdef", "Bearer sk-of-two")]
    {
        let ask = app.ask("POST", "/threads/t/process").key(key).header("prefer", "wait=30");
        let said = ask.json(&json!({"query": "hi"})).send().await.expect(200);
        assert_eq!(said["response"]["content"], "ok", "{said:#}");
        assert_eq!(wire.request().await.header("authorization"), Some(expected));
    }
}
