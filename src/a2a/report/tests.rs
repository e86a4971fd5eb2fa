use super::*;
use crate::a2a::types::{Metadata, Role};
use crate::a2a::view;
use crate::domain::hitl::{RiskLevel, SuspensionKind};
use crate::domain::tool::ToolClass;

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
fn a_text_that_came_in_pieces_is_one_text() {
    let named = Part { filename: Some("b.txt".to_owned()), ..Part::text("third") };
    let parts = ["c0 ", "c1 ", "c2"].map(Part::text).into_iter();
    let parts = parts.chain([Part::data(json!(1)), Part::text("second"), named]).collect();
    let mut task = task(TaskState::Completed, parts);
    task.artifacts.push(Artifact { parts: vec![Part::text("fourth")], ..task.artifacts[0].clone() });
    let output = of_task(&task, 1_000, None).output;
    assert_eq!(output["text"], "c0 c1 c2\n\nsecond\n\nthird\n\nfourth");
    assert_eq!(output["artifacts"][0]["parts"].as_array().unwrap().len(), 4, "{output:#}");
    assert_eq!(output["artifacts"][0]["parts"][0], json!({ "text": "c0 c1 c2" }));
}

#[test]
fn a_result_that_is_too_large_is_a_failure_with_its_size() {
    let report = of_task(&task(TaskState::Completed, vec![Part::text("x".repeat(2_000))]), 1_000, None);
    assert_eq!(report.state, PeerState::Failed);
    assert!(report.message.unwrap().contains("1000"));
}

fn said(role: Role, parts: Vec<Part>) -> Message {
    Message {
        message_id: "m".into(),
        context_id: None,
        task_id: None,
        role,
        parts,
        metadata: Metadata::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

/// What an agent says while it works is its answer if nothing else is.
#[test]
fn an_answer_that_only_the_history_has_is_what_was_said_after_our_last_message() {
    let agent = |text: &str| said(Role::Agent, vec![Part::text(text)]);
    let ours = || said(Role::User, vec![Part::text("ours")]);
    let mut task = Task { artifacts: Vec::new(), ..task(TaskState::Completed, Vec::new()) };
    assert!(is_answer_elsewhere(&task));
    task.history = vec![ours(), agent("Which one?"), ours(), agent("The answer"), agent("is four.")];
    assert!(!is_answer_elsewhere(&task), "there is nothing more to be read");
    let expected =
        json!({ "text": "The answer\nis four.", "message": [{ "text": "The answer" }, { "text": "is four." }] });
    assert_eq!(of_task(&task, 1_000, None).output, expected);
    task.history.push(ours());
    assert_eq!(of_task(&task, 1_000, None).output, json!({}), "it said nothing after that");
    task.history.push(agent("Looking."));
    task.status.message = Some(agent("Done."));
    assert_eq!(of_task(&task, 1_000, None).output["text"], "Done.");
    task.status.state = TaskState::Working;
    (task.status.message, task.history) = (None, Vec::new());
    assert!(!is_answer_elsewhere(&task));
}

/// A task that asks this.
fn asking(parts: Vec<Part>) -> Task {
    let said = said(Role::Agent, parts);
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
fn a_question_without_text_is_asked_with_its_data() {
    let said = |parts| of_task(&asking(parts), 1_000, None).message;
    assert_eq!(said(vec![Part::data(json!({ "size": ["s", "m"] }))]).as_deref(), Some(r#"{"size":["s","m"]}"#));
    assert_eq!(said(vec![Part::data("x".repeat(5_000).into())]).unwrap().len(), MAX_CHARS);
    assert_eq!(said(vec![Part::new(Content::Url("https://x/y".into()))]), None);
}

/// An agent that interrupts its work so asks by a text and a data part, and takes only data (Strands).
#[test]
fn a_question_with_text_and_data_shows_both_and_takes_a_text_or_an_object() {
    let interrupt = json!({ "interrupts": [{ "interruptId": "i1", "name": "confirm" }] });
    let task = asking(vec![Part::text("Order it?"), Part::data(interrupt.clone())]);
    let report = of_task(&task, 1_000, None);
    let shown = r#"Order it?
{"interrupts":[{"interruptId":"i1","name":"confirm"}]}"#;
    assert_eq!(report.message.as_deref(), Some(shown));
    assert_eq!(Progress::of_report(&report), Progress::of_status(&task.status));
    let form = report.form.unwrap();
    assert_eq!((form.input_type, &*form.prompt), (InputType::Text, shown));
    let takes = |value: Value| answer::check(&form, &value).is_ok();
    assert!(takes(json!("yes")) && takes(json!({ "interruptResponse": { "interruptId": "i1", "response": "yes" } })));
    assert!(!takes(json!(["yes"])) && !takes(json!(5)));
    assert!(!takes(json!({ "suspensionId": "sus_9", "approved": true })), "that is an answer to another question");
    let long = of_task(&asking(vec![Part::text("Order it?"), Part::data("x".repeat(5_000).into())]), 1_000, None);
    assert_eq!(long.message.unwrap().len(), MAX_CHARS);
    let mut ours = asked(json!({ "kind": "input" }));
    ours.push(Part::data(interrupt));
    let report = of_task(&asking(ours), 1_000, None);
    assert_eq!(report.message.as_deref(), Some("Send it?"), "nothing of a data part can look like a question of ours");
    assert_eq!(report.form.unwrap().custom_schema, None);
}

/// Such data is part of no other message.
#[test]
fn a_failure_says_its_text() {
    let mut task = asking(vec![Part::text("It broke."), Part::data(json!({ "trace": 1 }))]);
    task.status.state = TaskState::Failed;
    assert_eq!(of_task(&task, 1_000, None).message.as_deref(), Some("It broke."));
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

/// The parts of a question of this server.
fn asked(change: Value) -> Vec<Part> {
    let mut whole = json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "Send it?", "callId": "call_1", "toolName": "send",
        "expiresAt": 9_000, "toolInput": { "to": "a" }, "class": "irreversible", "idempotent": false, "digest": "d1", "riskLevel": "high",
        "feedbackSchema": { "inputType": "confirm", "prompt": "Send it?" },
    });
    for (name, value) in change.as_object().unwrap() {
        whole[name] = value.clone();
    }
    view::question("run_1", "t", &serde_json::from_value(whole).unwrap(), None).parts
}

#[test]
fn a_question_about_a_call_names_the_call_to_people_and_to_programs() {
    let mut parts = asked(json!({}));
    let shown = "Send it?\n\nTool `send`:\n\n```json\n{\n  \"to\": \"a\"\n}\n```";
    assert_eq!(parts[0].content, Content::Text(shown.to_owned()));
    let subject = RemoteSubject {
        tool_name: Some("send".to_owned()),
        arguments: Some(json!({ "to": "a" })),
        class: Some(ToolClass::Irreversible),
        idempotent: Some(false),
        plan: None,
        digest: Some("d1".to_owned()),
        risk_level: Some(RiskLevel::High),
        expires_at: Some(9_000),
    };
    let report = of_task(&asking(parts.clone()), 1_000, None);
    assert_eq!((report.message.as_deref(), report.subject), (Some("Send it?"), Some(subject)));
    parts.insert(0, Part::text("Answer yes or no."));
    let again = of_task(&asking(parts), 1_000, None);
    assert_eq!(again.message.as_deref(), Some("Answer yes or no.\nSend it?"), "the reason stays");
}

#[test]
fn what_cannot_be_read_of_a_question_about_a_call_is_left_out() {
    for (change, bytes) in [
        (json!({ "toolInput": { "to": "x".repeat(2_000) } }), 1_000),
        (json!({ "toolName": "send`\nhello" }), 1_000),
        (json!({ "toolName": null, "kind": "plan_review", "plan": { "items": 7 } }), 1_000),
    ] {
        let subject = of_task(&asking(asked(change)), bytes, None).subject.unwrap();
        assert!(!subject.can_be_shown(), "{subject:?}");
        assert_eq!((subject.tool_name, subject.risk_level), (None, Some(RiskLevel::High)));
    }
}

#[test]
fn a_question_that_asks_for_a_value_is_about_no_call() {
    let report = of_task(&asking(asked(json!({ "kind": "input" }))), 1_000, None);
    assert_eq!((report.message.as_deref(), report.subject), (Some("Send it?"), None));
}
