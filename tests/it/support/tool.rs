//! Tools of tests, and their calls.

use std::sync::Arc;

use pes::domain::ids::TenantPk;
use pes::domain::thread::AgentState;
use pes::domain::tool::{ToolClass, ToolSpec};
use pes::domain::trace::TraceOrigin;
use pes::tool::{Nobody, ToolContext};
use serde_json::json;

/// A tool that reads, may be repeated, takes any object and has ten minutes.
pub fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, format!("Is called {name}."), ToolClass::Read, json!({ "type": "object" }))
        .with_timeout_ms(600_000)
}

/// A call of the thread `t`, on 2026-01-01.
pub fn context() -> ToolContext {
    ToolContext {
        tenant: TenantPk(1),
        thread_id: "t".into(),
        run_id: "run_1".into(),
        item_id: None,
        call_id: "call_1".into(),
        user_id: None,
        trace: TraceOrigin::default().call("4bf92f3577b34da6a3ce929d0e0e4736", "key"),
        idempotency_key: "t/call_1".to_owned(),
        agent_state: AgentState::default(),
        now: 1_767_225_600_000,
        people: Arc::new(Nobody),
    }
}
