use serde_json::{Value, json};

use super::*;
use crate::domain::observation::ObservationType;

fn fact(kind: ObservationType, content: Value) -> Fact {
    Fact::read(kind, content).expect("a content of this type")
}

fn asked(id: &str, kind: &str, call: Option<&str>) -> Fact {
    let form = json!({ "inputType": "confirm", "prompt": "May it?" });
    let mut asked = json!({ "suspensionId": id, "kind": kind, "message": "May it?", "feedbackSchema": form });
    asked.as_object_mut().unwrap().extend(call.map(|call| ("callId".to_owned(), json!(call))));
    fact(ObservationType::AgentSuspended, asked)
}

/// The call of an item is parked while the run is paused, so another question keeps the run suspended after the pause.
#[test]
fn what_the_answer_to_a_pause_starts_in_its_commit_resumes_nothing() {
    let began = json!({ "streamId": "s", "phase": "execution", "provider": "p", "model": "m", "attempt": 1 });
    let began = fact(ObservationType::LlmStreamStart, began);
    let answered = json!({ "suspensionId": "p", "decision": "resumed", "decidedBy": "ann" });
    let expired = json!({ "suspensionId": "p", "policy": "deny" });
    for closed in [fact(ObservationType::AgentResumed, answered), fact(ObservationType::SuspensionTimeout, expired)] {
        let mut activity = RunActivity::default();
        activity.apply(None, 100, &asked("p", "pause", None));
        activity.apply(None, 200, &asked("q", "approval", Some("parked")));
        activity.apply(None, 300, &closed);
        assert!(activity.is_suspended(), "the approval is open");
        assert!(!activity.is_resumed_by(300, Some(&began)), "the same commit");
        assert!(activity.is_resumed_by(301, Some(&began)), "a later one");
        activity.apply(Some(&ItemId::from("work")), 300, &began);
        assert!(!activity.is_suspended());
    }
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
