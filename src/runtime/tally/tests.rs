use serde_json::{Value, json};

use super::*;

/// What a step with this record alone counts.
fn counted(kind: ObservationType, content: Value) -> Vec<Count> {
    let record = Record {
        id: "obs".into(),
        run_id: "run".into(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: 0,
        title: String::new(),
        fact: Fact::read(kind, content).expect("a content of this type"),
        metadata: None,
    };
    Tally::of(&Step { records: vec![record], ..Step::default() }, None).0
}

#[test]
fn a_reminder_answers_nothing_and_the_end_of_a_question_does() {
    let ended = |policy: &str| {
        let counted = counted(ObservationType::SuspensionTimeout, json!({ "suspensionId": "q", "policy": policy }));
        let decision = |count: &Count| if let Count::Answered { decision } = count { Some(*decision) } else { None };
        counted.iter().filter_map(decision).collect::<Vec<_>>()
    };
    assert_eq!(ended("remind"), [""; 0]);
    assert_eq!(ended("fail"), ["expired"]);
}

#[test]
fn a_model_call_that_is_not_made_again_was_not_recovered() {
    let recovered = |is_retried: bool| {
        let content = json!({ "streamId": "s", "code": "interrupted", "message": "", "retryable": is_retried });
        let counted = counted(ObservationType::LlmStreamError, content);
        counted.iter().filter(|count| matches!(count, Count::Recovered { what: "model" })).count()
    };
    assert_eq!((recovered(true), recovered(false)), (1, 0));
}

#[test]
fn a_call_that_did_not_run_took_no_time() {
    let took = |status: &str, code: Option<&str>, duration: i64| {
        let mut content = json!({ "callId": "c", "toolName": "t", "status": status, "durationMs": duration });
        if let Some(code) = code {
            content["error"] = json!({ "code": code, "message": "" });
        }
        let counted = counted(ObservationType::ToolExecution, content);
        let took = |count: &Count| if let Count::Tool { took_ms, .. } = count { Some(*took_ms) } else { None };
        counted.iter().find_map(took).expect("it is counted as a call")
    };
    assert_eq!(took("success", None, 0), Some(0));
    assert_eq!(took("error", Some("failed"), 7), Some(7));
    assert_eq!(took("error", Some("rejected"), 0), None);
    assert_eq!(took("error", Some("unknown_tool"), 0), None);
    assert_eq!(took("skipped", Some("skipped"), 0), None);
}
