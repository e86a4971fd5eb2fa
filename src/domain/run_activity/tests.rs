use serde_json::{Value, json};

use super::*;
use crate::domain::observation::ObservationType;

fn fact(kind: ObservationType, content: Value) -> Fact {
    Fact::read(kind, content).expect("a content of this type")
}

/// The reply is one commit: its end leaves nothing in progress for a moment, and its calls follow.
#[test]
fn a_reply_that_asks_for_calls_beside_an_open_question_resumes_nothing() {
    let item = ItemId::from("work");
    let began = json!({ "streamId": "s", "phase": "execution", "provider": "p", "model": "m", "attempt": 1 });
    let asked = json!({ "suspensionId": "q", "kind": "approval", "message": "May it?", "callId": "parked",
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" } });
    let calls = json!({ "iteration": 1, "toolCalls": [{ "callId": "c", "toolName": "t", "arguments": {} }] });
    let ended = fact(ObservationType::LlmStreamEnd, json!({ "streamId": "s", "text": "" }));
    let calls = fact(ObservationType::ToolCall, calls);
    let mut activity = RunActivity::default();
    activity.apply(Some(&item), 100, &fact(ObservationType::LlmStreamStart, began));
    activity.apply(None, 200, &fact(ObservationType::AgentSuspended, asked));
    assert!(!activity.is_suspended(), "the model works");
    activity.apply(Some(&item), 300, &ended);
    assert!(activity.is_suspended());
    assert!(!activity.is_resumed_by(300, Some(&calls)), "the same commit");
    assert!(activity.is_resumed_by(301, Some(&calls)), "a later one");
    activity.apply(Some(&item), 300, &calls);
    assert!(!activity.is_suspended());
}
