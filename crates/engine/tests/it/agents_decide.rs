//! Questions of agents about calls and plans of their own: a person decides them here like questions of this server.

use pes_engine::domain::digest;
use pes_engine::domain::hitl::{Answer, FeedbackSchema, InDoubtAction, InputType, RiskLevel, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::task::{PeerReport, PeerState, RemoteQuestion, RemoteSubject, TaskStatus};
use pes_engine::domain::tool::ToolClass;
use pes_engine::effect::Effect;
use rstest::rstest;
use serde_json::{Value, json};

use super::agents_ask::{asked, report, reports, waiting};
use super::sim::Sim;

fn payment() -> RemoteSubject {
    RemoteSubject {
        tool_name: Some("pay".to_owned()),
        arguments: Some(json!({ "to": "r", "amount": 3 })),
        class: Some(ToolClass::Irreversible),
        idempotent: Some(false),
        plan: None,
        digest: Some("d1".to_owned()),
        risk_level: Some(RiskLevel::High),
        expires_at: Some(9_000),
    }
}

/// Its agent asks this, with a form that lets people edit the arguments.
fn asking(kind: SuspensionKind, subject: Option<RemoteSubject>) -> Sim {
    let mut sim = waiting();
    asked(&mut sim);
    let form = FeedbackSchema { allow_modify_args: true, ..FeedbackSchema::new(InputType::Confirm, "May `pay` run?") };
    let question = PeerReport {
        message: Some("May `pay` run?".to_owned()),
        form: Some(form),
        question: Some(RemoteQuestion { suspension_id: "sus_1".into(), kind }),
        subject,
        ..report(PeerState::InputRequired)
    };
    reports(&mut sim, &question);
    sim
}

#[test]
fn what_an_agent_wants_to_run_is_shown_and_nothing_of_the_delegation() {
    let sim = asking(SuspensionKind::Approval, Some(payment()));
    let open = sim.suspensions().remove(0);
    assert_eq!((open.kind, &*open.message), (SuspensionKind::Approval, "away asks: May `pay` run?"));
    assert_eq!((open.tool_name.as_deref(), open.tool_input), (Some("pay"), Some(json!({ "to": "r", "amount": 3 }))));
    assert_eq!((open.class, open.idempotent), (Some(ToolClass::Irreversible), Some(false)));
    assert_eq!((open.risk_level, open.digest.as_deref()), (Some(RiskLevel::High), Some("d1")));
    assert_eq!((open.call_id, open.input_schema), (None, None));
    let (remote, task) = (open.remote.unwrap(), sim.tasks().remove(0));
    assert_eq!((&*remote.agent_id, remote.task_id, remote.call_id), ("away", task.task_id, task.call_id));
    assert_eq!((remote.expires_at, open.expires_at), (Some(9_000), None), "it expires there, not here");
    assert_eq!((open.feedback_schema.input_type, open.feedback_schema.allow_modify_args), (InputType::Confirm, true));
    assert_eq!(sim.item("i")["status"], "in_progress", "it waits for a person here, not for the agent");
}

/// How a person changes a blank answer.
type Decides = fn(&mut Answer);

#[rstest]
#[case::yes(SuspensionKind::Approval, |answer: &mut Answer| answer.approved = Some(true), json!({ "approved": true }), "approved")]
#[case::no(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.reason) = (Some(false), Some("not today".to_owned())),
    json!({ "approved": false, "reason": "not today" }),
    "rejected"
)]
#[case::with_other_arguments(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.modified_args) = (Some(true), Some(json!({ "to": "s" }))),
    json!({ "approved": true, "modifiedArgs": { "to": "s" } }),
    "modified"
)]
#[case::to_a_plan(SuspensionKind::PlanReview, |answer: &mut Answer| answer.approved = Some(true), json!({ "approved": true }), "approved")]
#[case::in_doubt(
    SuspensionKind::InDoubt,
    |answer: &mut Answer| (answer.action, answer.value) = (Some(InDoubtAction::Done), Some(json!(7))),
    json!({ "action": "done", "value": 7 }),
    "done"
)]
fn a_decision_is_sent_to_the_agent_as_it_was_made(
    #[case] kind: SuspensionKind,
    #[case] decides: Decides,
    #[case] sent: Value,
    #[case] decision: &str,
) {
    let mut sim = asking(kind, Some(payment()));
    sim.answer(0, decides).unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::Delegate { .. }]), "{:?}", sim.in_flight);
    let task = sim.tasks().remove(0);
    assert_eq!(task.status, TaskStatus::Sending);
    let mut reply = task.reply.unwrap();
    reply.as_object_mut().unwrap().remove("suspensionId");
    let digest = reply.as_object_mut().unwrap().remove("digest");
    assert_eq!((&reply, digest), (&sent, Some(json!("d1"))), "the digest is that of the question");
    assert!(sim.contents(ObservationType::ToolExecution).is_empty(), "the task goes on");
    let told = sim.contents(ObservationType::AgentResumed).remove(0);
    let edited = sent.get("modifiedArgs").map(|edited| digest::of_call("pay", edited));
    assert_eq!((&told["decision"], &told["toolName"]), (&json!(decision), &json!("pay")));
    assert_eq!(told["digest"], edited.unwrap_or_else(|| "d1".to_owned()), "it is the digest of what was approved");
}

#[test]
fn an_answer_that_decides_nothing_is_refused() {
    for (kind, pointer) in [(SuspensionKind::Approval, "/approved"), (SuspensionKind::InDoubt, "/action")] {
        let mut sim = asking(kind, Some(payment()));
        let refused = sim.answer(0, |answer| answer.value = Some(true.into())).unwrap_err();
        assert_eq!((refused.code.as_str(), &*refused.errors[0].pointer), ("invalid", pointer));
        assert_eq!(sim.suspensions().len(), 1);
    }
}

/// Its data cannot be read, or is too large.
#[test]
fn what_cannot_be_shown_is_said_and_cannot_be_edited() {
    for subject in [None, Some(RemoteSubject { risk_level: Some(RiskLevel::High), ..RemoteSubject::default() })] {
        let mut sim = asking(SuspensionKind::Approval, subject);
        let open = sim.suspensions().remove(0);
        let said = "away asks: May `pay` run? It does not say what it is about in a form that can be shown here.";
        assert_eq!((open.kind, &*open.message), (SuspensionKind::Approval, said));
        assert_eq!((open.tool_name, open.tool_input), (None, None));
        assert!(!open.feedback_schema.allow_modify_args);
        let edits: Decides = |answer| (answer.approved, answer.modified_args) = (Some(true), Some(json!({})));
        let refused = sim.answer(0, edits).unwrap_err();
        assert_eq!(&*refused.errors[0].pointer, "/modifiedArgs");
    }
}

/// The arguments that are shown with it are those of the delegation.
#[test]
fn a_question_that_asks_for_a_value_lets_nobody_edit_arguments() {
    let sim = asking(SuspensionKind::Input, None);
    let open = sim.suspensions().remove(0);
    assert_eq!((open.kind, open.remote), (SuspensionKind::PeerInput, None));
    assert_eq!((&*open.message, open.feedback_schema.allow_modify_args), ("May `pay` run?", false));
}

/// Otherwise one person would write what the agent does, and approve it.
#[rstest]
#[case::yes(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.reason) = (Some(true), Some("fine".to_owned())),
    false
)]
#[case::no(SuspensionKind::Approval, |answer: &mut Answer| answer.approved = Some(false), false)]
#[case::no_and_why(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.reason) = (Some(false), Some("to me".to_owned())),
    true
)]
#[case::no_with_arguments(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.modified_args) = (Some(false), Some(json!({}))),
    false
)]
#[case::other_arguments(
    SuspensionKind::Approval,
    |answer: &mut Answer| (answer.approved, answer.modified_args) = (Some(true), Some(json!({ "to": "me" }))),
    true
)]
#[case::no_to_a_plan_and_why(
    SuspensionKind::PlanReview,
    |answer: &mut Answer| (answer.approved, answer.reason) = (Some(false), Some("to me".to_owned())),
    true
)]
#[case::done_with(
    SuspensionKind::InDoubt,
    |answer: &mut Answer| (answer.action, answer.value) = (Some(InDoubtAction::Done), Some(json!(7))),
    true
)]
#[case::retry(
    SuspensionKind::InDoubt,
    |answer: &mut Answer| (answer.action, answer.reason) = (Some(InDoubtAction::Retry), Some("fine".to_owned())),
    false
)]
fn who_gives_the_agent_words_or_arguments_has_shaped_the_run(
    #[case] kind: SuspensionKind,
    #[case] decides: Decides,
    #[case] shapes: bool,
) {
    let mut sim = asking(kind, Some(payment()));
    sim.answer(0, decides).unwrap();
    let expected: &[&str] = if shapes { &["eve", "ann"] } else { &["eve"] };
    assert_eq!(sim.run("run_1").requested_by, expected);
}
