//! A model that is asked too often at once.

use std::sync::Arc;

use pes::config::Config;
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
