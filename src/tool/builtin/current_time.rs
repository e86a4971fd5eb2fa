//! `current_time`: the date and time, in any zone of the bundled database.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::domain::Millis;
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct CurrentTime {
    spec: Arc<ToolSpec>,
}

impl CurrentTime {
    pub(super) fn new() -> Self {
        let spec = ToolSpec {
            name: "current_time".to_owned(),
            description: "The current date and time, in UTC or in the given IANA time zone (e.g. Europe/Berlin)."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "timezone": { "type": "string", "minLength": 1, "maxLength": 64 } },
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
impl Tool for CurrentTime {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn at_once(&self, arguments: &Value, now: Millis) -> Option<Result<ToolOutput, ToolError>> {
        Some(time_in_zone(arguments, now))
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        time_in_zone(&arguments, context.now)
    }
}

fn time_in_zone(arguments: &Value, now: Millis) -> Result<ToolOutput, ToolError> {
    let zone = arguments.get("timezone").and_then(Value::as_str).unwrap_or("UTC");
    let unknown = |_| {
        let message = format!("`{zone}` is no IANA time zone; write it like Europe/Berlin.");
        ToolError::new(CallCode::InvalidArguments, message).at("/timezone")
    };
    let out_of_range =
        |error: jiff::Error| ToolError::new(CallCode::Failed, format!("The clock shows no valid time: {error}"));
    let time = jiff::Timestamp::from_millisecond(now).map_err(out_of_range)?.in_tz(zone).map_err(unknown)?;
    let output = json!({
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "weekday": time.strftime("%A").to_string(),
        "timezone": zone,
        "unixMs": now,
    });
    Ok(ToolOutput::new(output))
}
