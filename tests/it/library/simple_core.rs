//! The example of a core that is one function runs on the same runtime.

use pes::domain::fault::Code;
use pes::domain::run::ResultStatus;
use pes::domain::settings::PolicyAction;
use pes::{AgentProps, Config};
use serde_json::json;

#[path = "../../../examples/simple_core/main.rs"]
#[allow(dead_code, reason = "an example has its own main")]
mod example;

#[tokio::test]
async fn the_example_calls_what_the_model_wants_and_has_its_answer_checked() {
    let answer = example::answer("How much is 6 times 7?").await.unwrap();
    assert_eq!(answer.response.content, "It is 42.");
    let told = answer.metadata;
    assert_eq!((told.llm_calls, told.tool_calls, told.tool_errors), (3, 2, 0));
    assert_eq!(told.status, ResultStatus::Success);
}

/// The call that its core makes is judged like any other, and the run continues in another process.
#[tokio::test]
async fn what_policy_asks_about_waits_for_a_person_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let gate = |config: &mut Config| {
        config.agent.tool_policy.insert("current_time".to_owned(), PolicyAction::Ask);
    };
    let first = example::open(folder.path(), gate).await.unwrap();
    let fault = first.process(AgentProps::new("t", "How much is 6 times 7?")).await.unwrap_err();
    assert_eq!(fault.code, Code::Suspended, "{fault:?}");
    let asked = fault.extra.unwrap()["suspensions"][0].clone();
    assert_eq!(asked["toolName"], "current_time");
    first.close().await;
    let second = example::open(folder.path(), gate).await.unwrap();
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    let answer = second.resume("t", serde_json::from_value(answer).unwrap()).await.unwrap();
    assert_eq!(answer.response.content, "It is 42.");
    assert_eq!((answer.metadata.llm_calls, answer.metadata.tool_calls), (3, 2));
    second.close().await;
}
