use super::*;
use crate::a2a::types::{Metadata, Role};
use crate::domain::hitl::SuspensionKind;

fn task(state: TaskState, parts: Vec<Part>) -> Task {
    let artifact = Artifact {
        artifact_id: "a".into(),
        name: None,
        description: None,
        parts,
        metadata: Metadata::new(),
        extensions: Vec::new(),
    };
    let status = TaskStatus { state, message: None, timestamp: None };
    let (history, metadata) = (Vec::new(), Metadata::new());
    Task { id: "t".into(), context_id: "c".into(), status, artifacts: vec![artifact], history, metadata }
}

#[test]
fn artifacts_are_kept_with_their_parts_and_their_text_stands_in_front() {
    let raw = Part::new(Content::Raw(vec![0, 1].into()));
    let parts =
        vec![Part::text("one"), Part::data(json!({ "n": 1 })), Part::new(Content::Url("https://x/y".into())), raw];
    let report = of_task(&task(TaskState::Completed, parts), 1_000, None);
    assert_eq!(report.output["text"], "one");
    assert_eq!(report.output["artifacts"][0]["parts"][1], json!({ "data": { "n": 1 } }));
    assert_eq!(report.output["artifacts"][0]["parts"][2], json!({ "url": "https://x/y" }));
    assert_eq!(report.output["artifacts"][0]["parts"][3], json!({ "raw": "AAE=" }));
}

#[test]
fn a_result_that_is_too_large_is_a_failure_with_its_size() {
    let report = of_task(&task(TaskState::Completed, vec![Part::text("x".repeat(2_000))]), 1_000, None);
    assert_eq!(report.state, PeerState::Failed);
    assert!(report.message.unwrap().contains("1000"));
}

/// A task that asks this.
fn asking(parts: Vec<Part>) -> Task {
    let said = Message {
        message_id: "m".into(),
        context_id: None,
        task_id: None,
        role: Role::Agent,
        parts,
        metadata: Metadata::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    };
    let mut asking = task(TaskState::InputRequired, Vec::new());
    asking.status.message = Some(said);
    asking
}

#[test]
fn a_question_with_a_form_of_ours_is_asked_with_it() {
    let asks = json!({
        "suspensionId": "sus_1", "kind": "input", "feedbackSchema": { "inputType": "boolean", "prompt": "sure?" },
    });
    let report = of_task(&asking(vec![Part::text("sure?"), Part::data(asks)]), 1_000, None);
    assert_eq!(report.message.as_deref(), Some("sure?"));
    assert_eq!(report.form.unwrap().prompt, "sure?");
    assert_eq!(report.question, Some(RemoteQuestion { suspension_id: "sus_1".into(), kind: SuspensionKind::Input }));
}

#[test]
fn a_question_without_a_kind_or_with_a_long_id_has_no_id() {
    for data in [json!({ "suspensionId": "sus_1" }), json!({ "suspensionId": "x".repeat(201), "kind": "input" })] {
        assert_eq!(of_task(&asking(vec![Part::data(data)]), 1_000, None).question, None);
    }
}

#[test]
fn a_form_that_nobody_can_fill_in_is_left_out() {
    for schema in [
        json!({ "inputType": "select", "prompt": "which?" }),
        json!({ "inputType": "custom", "prompt": "which?", "customSchema": { "type": "nonsense" } }),
    ] {
        let report = of_task(&asking(vec![Part::text("which?"), Part::data(json!({ "schema": schema }))]), 1_000, None);
        assert_eq!((report.form, report.message.as_deref()), (None, Some("which?")));
    }
}

#[test]
fn another_question_is_progress_and_another_message_of_a_working_task_is_not() {
    let status = |state, text: &str| {
        let mut status = asking(vec![Part::text(text)]).status;
        status.state = state;
        Progress::of_status(&status)
    };
    assert_ne!(status(TaskState::InputRequired, "a"), status(TaskState::InputRequired, "b"));
    assert_eq!(status(TaskState::Working, "a"), status(TaskState::Working, "b"));
    let report = of_task(&asking(vec![Part::text("a")]), 1_000, None);
    assert_eq!(Progress::of_report(&report), status(TaskState::InputRequired, "a"));
}
