//! The result of `at_once` is the same as that of a call, and bounded like it.

use std::sync::Arc;

use async_trait::async_trait;
use pes::config::Environment;
use pes::domain::Millis;
use pes::domain::thread::Limits;
use pes::domain::tool::{ToolError, ToolOutcome, ToolSpec};
use pes::engine::Toolbox;
use pes::tool::{Registry, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

use super::{everything, own_tools};
use crate::support::tool::{context, spec};

#[tokio::test]
async fn it_is_the_same_as_the_calls() {
    let tools = everything(Environment::Development);
    let context = context();
    for (tool, arguments) in [
        ("calculator", json!({ "expression": "6 * 7" })),
        ("calculator", json!({ "expression": "6 *" })),
        ("current_time", json!({ "timezone": "Asia/Tokyo" })),
        ("current_time", json!({ "timezone": "Moon/Base" })),
        ("set_agent_state", json!({ "patch": { "a": 1, "b": null } })),
    ] {
        let at_once = tools.at_once(tool, &arguments, context.now, &Limits::default()).unwrap();
        let called = tools.get(tool).unwrap().call(arguments, context.clone()).await;
        assert_eq!(at_once, tools.outcome(tool, called, 1 << 20), "{tool}");
    }
    for tool in ["ask_user", "demo_send_email", "unknown"] {
        assert_eq!(tools.at_once(tool, &json!({}), 0, &Limits::default()), None);
    }
}

/// Panics, or returns what its schema does not allow.
struct Bad {
    name: &'static str,
}

#[async_trait]
impl Tool for Bad {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { output_schema: Some(json!({ "type": "string" })), ..spec(self.name) })
    }

    fn at_once(&self, _: &Value, _: Millis) -> Option<Result<ToolOutput, ToolError>> {
        match self.name {
            "breaks" => panic!("no such luck"),
            "lies" => Some(Ok(ToolOutput::new(json!(7)))),
            _ => Some(Ok(ToolOutput::new(json!("x".repeat(100))))),
        }
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        unreachable!("it is answered at once")
    }
}

#[test]
fn it_is_bounded_like_a_call() {
    let tools: Vec<Arc<dyn Tool>> = ["breaks", "lies", "talks"].map(|name| Arc::new(Bad { name }) as _).into();
    let tools = own_tools(Registry::new(tools, Environment::Development).unwrap());
    let limits = Limits { tool_output_bytes: 50, ..Limits::default() };
    let code = |tool: &str| {
        let ToolOutcome { result, .. } = tools.at_once(tool, &json!({}), 0, &limits).unwrap();
        let error = result.unwrap_err();
        (error.code, error.message)
    };
    assert_eq!(code("breaks"), ("panicked".to_owned(), "The tool broke: no such luck".to_owned()));
    assert_eq!(code("lies").0, "invalid_output");
    assert_eq!(code("talks").0, "output_too_large");
}
