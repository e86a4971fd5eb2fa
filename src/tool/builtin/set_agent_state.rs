//! `set_agent_state`: a merge patch of the thread's application state, committed with the call's result.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::domain::Millis;
use crate::domain::thread::AgentState;
use crate::domain::tool::{ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct SetAgentState {
    spec: Arc<ToolSpec>,
}

impl SetAgentState {
    pub(super) fn new() -> Self {
        let spec = ToolSpec {
            name: AgentState::SET_TOOL.to_owned(),
            description: "Changes the application state of this conversation: a JSON merge patch, null removes a key."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "patch": { "type": "object" } },
                "required": ["patch"],
                "additionalProperties": false
            }),
            output_schema: None,
            class: ToolClass::Write,
            // Applying a merge patch twice gives the same state, and it is applied in the commit that stores the
            // result.
            idempotent: true,
            timeout_ms: 1_000,
            risk_level: None,
        };
        Self { spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for SetAgentState {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn at_once(&self, arguments: &Value, _: Millis) -> Option<Result<ToolOutput, ToolError>> {
        Some(Ok(changed(arguments)))
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(changed(&arguments))
    }
}

fn changed(arguments: &Value) -> ToolOutput {
    let patch = arguments.get("patch").cloned().unwrap_or_default();
    let keys: Vec<&String> = patch.as_object().map(|map| map.keys().collect()).unwrap_or_default();
    ToolOutput { output: json!({ "changed": keys }), metadata: None, state_patch: Some(patch) }
}
