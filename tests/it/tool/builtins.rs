//! The results of the built-in tools.

use pes::config::Environment;
use pes::domain::tool::ToolError;
use pes::tool::ToolOutput;
use serde_json::{Value, json};

use super::everything;
use crate::support::tool::context;

async fn call(tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    everything(Environment::Development).get(tool).unwrap().call(arguments, context()).await
}

#[tokio::test]
async fn the_calculator_says_whole_numbers_as_such() {
    let result = async |expression: &str| {
        call("calculator", json!({ "expression": expression })).await.map(|done| done.output["result"].clone())
    };
    assert_eq!(result("6*7").await.unwrap(), json!(42));
    assert_eq!(result("1/4").await.unwrap(), json!(0.25));
    assert_eq!(result("2^53").await.unwrap(), json!(9_007_199_254_740_992_i64));
    let error = result("1/0").await.unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.pointer.as_deref()),
        ("at character 2: division by zero", Some("/expression"))
    );
}

#[tokio::test]
async fn the_time_is_that_of_the_call_in_the_zone_asked_for() {
    let utc = call("current_time", json!({})).await.unwrap().output;
    assert_eq!(utc["time"], "2026-01-01T00:00:00+00:00");
    assert_eq!((&utc["weekday"], &utc["unixMs"]), (&json!("Thursday"), &json!(1_767_225_600_000_i64)));
    let tokyo = call("current_time", json!({ "timezone": "Asia/Tokyo" })).await.unwrap().output;
    assert_eq!(tokyo["time"], "2026-01-01T09:00:00+09:00");
    let error = call("current_time", json!({ "timezone": "Moon/Base" })).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.pointer.as_deref()), ("invalid_arguments", Some("/timezone")));
}

#[tokio::test]
async fn a_state_patch_travels_with_the_result() {
    let done = call("set_agent_state", json!({ "patch": { "a": 1, "b": null } })).await.unwrap();
    assert_eq!(done.state_patch, Some(json!({ "a": 1, "b": null })));
    assert_eq!(done.output, json!({ "changed": ["a", "b"] }));
}

#[tokio::test]
async fn the_demo_mail_only_pretends() {
    let done = call("demo_send_email", json!({ "to": "a@example.com", "subject": "s", "body": "b" })).await.unwrap();
    assert_eq!(done.output, json!({ "sent": true, "to": "a@example.com", "subject": "s" }));
}
