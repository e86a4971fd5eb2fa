//! The straight path, with the exact order of what is recorded.

use pes::domain::observation::ObservationType;
use pes::domain::run::RunStatus;
use serde_json::json;

use super::sim::*;

fn three_items(
    request: &pes::domain::model::ModelRequest,
) -> Result<pes::domain::model::ModelReply, pes::domain::model::ModelFailure> {
    match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"]), ("b", &["a"], &["read"]), ("c", &["b"], &["read"])]),
        "a.1" | "b.1" | "c.1" => calls(&[("read", json!({ "of": which(request) }))]),
        "synthesis" => says("the answer"),
        other => says(format!("result of {other}")),
    }
}

#[test]
fn three_items_with_a_call_each_take_twelve_transitions() {
    let mut sim = Sim::new(three_items);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.steps.len(), 12);
    assert_eq!(sim.prompts.len(), 8);
    let item = |id: &str| {
        let of = |kind: &str| format!("{kind}[{id}]");
        [
            "ITEM_STATUS_CHANGE",
            "LLM_STREAM_START",
            "LLM_STREAM_END",
            "TOOL_CALL",
            "TOOL_EXECUTION",
            "LLM_STREAM_START",
            "LLM_STREAM_END",
            "ITEM_STATUS_CHANGE",
        ]
        .map(of)
        .to_vec()
    };
    let mut expected: Vec<String> =
        ["RUN_STARTED", "LLM_STREAM_START", "LLM_STREAM_END", "INTENT", "TITLE", "PLAN", "PLAN_UPDATE"]
            .map(String::from)
            .to_vec();
    for id in ["a", "b", "c"] {
        expected.extend(item(id));
    }
    expected.extend(
        ["SYNTHESIS", "LLM_STREAM_START", "LLM_STREAM_END", "SYNTHESIS", "FINAL_RESPONSE", "RUN_FINISHED"]
            .map(String::from),
    );
    assert_eq!(sim.kinds(), expected);
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "the answer");
    let finished = &sim.contents(ObservationType::RunFinished)[0];
    assert_eq!((&finished["status"], &finished["resultStatus"]), (&json!("completed"), &json!("success")));
    assert_eq!((&finished["llmCalls"], &finished["toolCalls"]), (&json!(8), &json!(3)));
    assert_eq!(sim.item("b")["result"], "result of b.2");
}
