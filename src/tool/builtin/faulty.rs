//! Faulty tools, for tests that start the server as a process. Not compiled into releases.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) fn all() -> Vec<Arc<dyn Tool>> {
    let any = json!({ "type": "object" });
    let path = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    let times = json!({ "type": "object", "properties": { "times": { "type": "integer", "minimum": 0 } } });
    let failed: Misbehaviour = Misbehaviour::FailTimes(Mutex::new(HashMap::new()));
    [
        ("test_hang", any.clone(), true, Misbehaviour::Hang),
        ("test_panic", any.clone(), true, Misbehaviour::Panic),
        ("test_huge", any, true, Misbehaviour::Huge),
        ("test_fail_times", times, true, failed),
        ("test_count", path.clone(), false, Misbehaviour::Count),
        ("test_count_idempotent", path.clone(), true, Misbehaviour::Count),
        ("test_count_read", path, true, Misbehaviour::Count),
    ]
    .map(|(name, schema, idempotent, misbehaviour)| {
        Arc::new(FaultyTool::new(name, schema, idempotent, misbehaviour)) as Arc<dyn Tool>
    })
    .into()
}

enum Misbehaviour {
    /// Never returns.
    Hang,
    Panic,
    /// Returns more than any limit.
    Huge,
    /// Fails `times` times per thread, then succeeds.
    FailTimes(Mutex<HashMap<String, u64>>),
    /// Appends the idempotency key to the file at `path`: one line for each execution that really took place.
    Count,
}

struct FaultyTool {
    spec: Arc<ToolSpec>,
    misbehaviour: Misbehaviour,
}

impl FaultyTool {
    fn new(name: &str, input_schema: Value, idempotent: bool, misbehaviour: Misbehaviour) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "Misbehaves, for tests.".to_owned(),
            input_schema,
            output_schema: None,
            class: if name.ends_with("_read") { ToolClass::Read } else { ToolClass::Write },
            idempotent,
            timeout_ms: 30_000,
            risk_level: None,
        };
        Self { spec: Arc::new(spec), misbehaviour }
    }
}

#[async_trait]
impl Tool for FaultyTool {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let output = match &self.misbehaviour {
            Misbehaviour::Hang => std::future::pending().await,
            Misbehaviour::Panic => panic!("this tool panics"),
            Misbehaviour::Huge => Value::String("x".repeat(8 << 20)),
            Misbehaviour::FailTimes(failed) => fail_times(failed, &arguments, &context)?,
            Misbehaviour::Count => count(&arguments, &context)?,
        };
        Ok(ToolOutput::new(output))
    }
}

fn fail_times(
    failed: &Mutex<HashMap<String, u64>>,
    arguments: &Value,
    context: &ToolContext,
) -> Result<Value, ToolError> {
    let times = arguments.get("times").and_then(Value::as_u64).unwrap_or(1);
    let mut failed = failed.lock();
    let so_far = failed.entry(context.thread_id.to_string()).or_default();
    if *so_far < times {
        *so_far += 1;
        return Err(error(format!("failure {so_far} of {times}")));
    }
    Ok(json!({ "failures": so_far }))
}

fn count(arguments: &Value, context: &ToolContext) -> Result<Value, ToolError> {
    let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{}", context.idempotency_key));
    written.map(|()| json!({ "counted": true })).map_err(|why| error(format!("{path}: {why}")))
}

fn error(message: String) -> ToolError {
    ToolError::new(CallCode::Failed, message)
}
