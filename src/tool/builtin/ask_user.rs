//! `ask_user`: a question; the person's answer is the tool's result.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::domain::hitl::{FeedbackSchema, InputType, Question, SelectOption};
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct AskUser {
    spec: Arc<ToolSpec>,
}

impl AskUser {
    pub(super) fn new() -> Self {
        let spec = ToolSpec {
            name: "ask_user".to_owned(),
            description: "Asks the user a question and waits for the answer. Use it only for what cannot be found out \
                          otherwise. inputType select and multiselect need options, custom needs schema (JSON Schema)."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "question": { "type": "string", "minLength": 1, "maxLength": 10_000 },
                    "inputType": { "enum": [
                        "boolean", "text", "select", "multiselect", "number", "date", "datetime", "file", "confirm", "custom"
                    ] },
                    "options": { "type": "array", "minItems": 1, "maxItems": 100, "items": { "anyOf": [
                        { "type": "string" },
                        {
                            "type": "object",
                            "properties": { "value": {}, "label": { "type": "string" } },
                            "required": ["value"],
                            "additionalProperties": false
                        }
                    ] } },
                    "schema": { "type": "object" }
                },
                "required": ["question"],
                "additionalProperties": false
            }),
            output_schema: None,
            class: ToolClass::Read,
            idempotent: true,
            timeout_ms: 1_000,
            risk_level: None,
        };
        Self { spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn question(&self, arguments: &Value) -> Option<Question> {
        let message = arguments.get("question")?.as_str()?.to_owned();
        let input_type =
            arguments.get("inputType").map_or(Ok(InputType::Text), |kind| serde_json::from_value(kind.clone()));
        let options = arguments.get("options").and_then(Value::as_array);
        let form = FeedbackSchema {
            options: options.map(|options| options.iter().map(option).collect()).unwrap_or_default(),
            custom_schema: arguments.get("schema").cloned(),
            ..FeedbackSchema::new(input_type.ok()?, message.clone())
        };
        Some(Question { message, form })
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::new(CallCode::Failed, "A question is answered by a person, it does not run."))
    }
}

/// A plain string is its own label.
fn option(given: &Value) -> SelectOption {
    let value = given.get("value").unwrap_or(given).clone();
    let label = given.get("label").and_then(Value::as_str).map(str::to_owned);
    let label = label.unwrap_or_else(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    SelectOption { value, label }
}
