//! Times that others check come from the system's clock, even while the server's own clock is behind it.

use std::sync::Arc;

use pes::config::{HttpTool, Webhook};
use pes::domain::tool::ToolClass;
use pes::domain::webhook::WebhookEvent;
use pes::runtime::clock::Manual;
use pes::{AgentProps, Instance};
use serde_json::json;

use crate::support::demo;
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::wire::{Request, Wire, answer};

const NOW: i64 = 1_790_000_000_000;
const BEHIND: i64 = 2 * 3_600_000;

fn signed_at(request: &Request) -> i64 {
    request.header("webhook-timestamp").unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_is_signed_bears_the_time_of_the_systems_clock() {
    let clock = Arc::new(Manual::at(NOW));
    clock.put_forward(BEHIND);
    let mut tool = Wire::serve(vec![answer("200 OK", "", r#"{"state":"sent"}"#)]).await;
    let mut hook = Wire::serve(vec![answer("204 No Content", "", "")]).await;
    let mut config = demo::scripted(demo::SCRIPT);
    config.egress.allow.push(hook.address.to_string());
    config.tools.http.push(HttpTool {
        name: "find_order".to_owned(),
        description: "Finds an order.".to_owned(),
        url: tool.url(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        class: ToolClass::Read,
        idempotent: false,
        timeout_ms: 10_000,
        secret: None,
    });
    config.webhooks.push(Webhook {
        id: "ops".to_owned(),
        url: hook.url(),
        events: vec![WebhookEvent::RunFinished],
        secrets: Vec::new(),
        tenant: None,
    });
    let instance = Instance::build(config).store(fresh_store().await).clock(clock).open().await.unwrap();
    instance.process(AgentProps::new("t", "order")).await.unwrap();
    for wire in [&mut tool, &mut hook] {
        assert_eq!(signed_at(&soon(wire.request()).await), (NOW + BEHIND) / 1_000);
    }
    instance.close().await;
}
