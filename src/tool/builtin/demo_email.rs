//! `demo_send_email`: pretends to send an email, so that the demo has a call to approve. Nothing is sent.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::domain::hitl::RiskLevel;
use crate::domain::tool::{ToolClass, ToolError, ToolSpec};
use crate::tool::{Approval, Tool, ToolContext, ToolOutput};

pub(super) struct DemoSendEmail {
    spec: Arc<ToolSpec>,
}

impl DemoSendEmail {
    pub(super) fn new() -> Self {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": 10_000 });
        let spec = ToolSpec {
            name: "demo_send_email".to_owned(),
            description: "Sends an e-mail (demo: it only pretends to).".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "to": text, "subject": text, "body": text },
                "required": ["to", "subject", "body"],
                "additionalProperties": false
            }),
            output_schema: None,
            class: ToolClass::Irreversible,
            idempotent: false,
            timeout_ms: 10_000,
            risk_level: Some(RiskLevel::High),
        };
        Self { spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for DemoSendEmail {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn approval(&self, arguments: &Value) -> Option<Approval> {
        let to = arguments.get("to").and_then(Value::as_str).unwrap_or_default();
        let subject = arguments.get("subject").and_then(Value::as_str).unwrap_or_default();
        Some(Approval { message: format!("Send the e-mail \u{201c}{subject}\u{201d} to {to}?"), risk: None })
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let output = json!({ "sent": true, "to": arguments["to"], "subject": arguments["subject"] });
        Ok(ToolOutput::new(output))
    }
}
