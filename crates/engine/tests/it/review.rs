//! Plan review: a person is asked before a plan runs, and again after every change of it.

use pes_engine::domain::digest;
use pes_engine::domain::hitl::{ExpiryPolicy, RiskLevel, Suspension, SuspensionKind};
use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, PlanReview, RunSettings};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::step::{Keep, RowKind};
use serde_json::{Value, json};

use super::sim::*;
use super::suspend::ran;

pub fn reviewing(plan_review: PlanReview) -> RunSettings {
    with(ExecutionConfig { plan_review, ..ExecutionConfig::default() })
}

pub fn with(execution: ExecutionConfig) -> RunSettings {
    RunSettings { execution, ..RunSettings::default() }
}

/// A step calls the tool that its item is named after, then ends.
pub fn does_it(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "synthesis" => says("the answer"),
        step => match step.strip_suffix(".1") {
            Some(tool @ ("read" | "write" | "gated")) => calls(&[(tool, json!({ "x": "1" }))]),
            _ => says(format!("result of {step}")),
        },
    }
}

pub type Items = &'static [(&'static str, &'static [&'static str], &'static [&'static str])];

/// The first plan, and the next one for every refinement.
pub fn plans(first: Items, mut next: Vec<Items>) -> Sim {
    next.reverse();
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(first),
        "refinement" => plan(next.pop().expect("no other refinement")),
        _ => does_it(request),
    })
}

pub fn two_steps() -> Sim {
    plans(&[("read", &[], &["read"]), ("write", &["read"], &["write"])], Vec::new())
}

pub fn asked(sim: &mut Sim, review: PlanReview) {
    sim.ask_with("go", OnBusy::Enqueue, reviewing(review)).unwrap();
    sim.go();
}

/// The only open question, which is a review.
pub fn review(sim: &Sim) -> Suspension {
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!(open.kind, SuspensionKind::PlanReview);
    open.clone()
}

/// The plan that the newest review shows.
pub fn shown(sim: &Sim) -> Value {
    let told = sim.contents(ObservationType::AgentSuspended);
    told.into_iter().rfind(|told| told["kind"] == "plan_review").unwrap()["plan"].clone()
}

pub fn approve(sim: &mut Sim) {
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
}

pub fn reject(sim: &mut Sim, reason: &str) {
    sim.answer(0, |answer| {
        answer.approved = Some(false);
        answer.reason = Some(reason.to_owned());
    })
    .unwrap();
    sim.go();
}

pub fn edit(sim: &mut Sim, change: impl FnOnce(&mut Vec<Value>)) {
    sim.edit_plan("bob", change).unwrap();
}

pub fn statuses(sim: &Sim) -> Vec<String> {
    let list = sim.view()["todoList"].as_array().unwrap().clone();
    list.iter().map(|item| format!("{}:{}", item["id"].as_str().unwrap(), item["status"].as_str().unwrap())).collect()
}

/// The last one and its time: the outcome of a run.
pub fn ended(sim: &Sim) -> (String, String) {
    let end = sim.contents(ObservationType::RunFinished).pop().expect("a run ended");
    let word = |name: &str| end[name].as_str().unwrap_or_default().to_owned();
    (word("status"), word("resultStatus"))
}

#[test]
fn nothing_of_a_plan_begins_before_a_person_said_yes() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    assert!(!sim.is_active() && ran(&sim).is_empty());
    assert_eq!(statuses(&sim), ["read:pending", "write:pending"]);
    let open = review(&sim);
    assert!(open.feedback_schema.allow_modify_args && open.message.contains("2 steps"), "{open:?}");
    let plan = shown(&sim);
    assert_eq!((&plan["planVersion"], &plan["risky"]), (&json!(1), &json!(false)));
    assert_eq!(plan["items"][1]["dependencies"], json!(["read"]));
    let call = json!([{ "toolName": "write", "action": "auto", "class": "write" }]);
    assert_eq!(plan["items"][1]["mayCall"], call);
    assert_eq!(plan["tools"][0]["toolName"], "read");
    assert_eq!(open.digest.as_deref(), Some(digest::of(&plan).as_str()), "the digest is that of what is shown");
    approve(&mut sim);
    assert_eq!(ran(&sim), ["read:1", "write:1"]);
    assert_eq!(ended(&sim), ("completed".into(), "success".into()));
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "approved");
}

#[test]
fn a_plan_is_risky_if_it_may_call_what_policy_asks_about_or_what_reaches_out() {
    let asks = |tools: &'static [&'static str]| {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("read", &[], &["read"]), ("b", &[], tools)]),
            _ => does_it(request),
        });
        sim.ask_with("go", OnBusy::Enqueue, reviewing(PlanReview::Risky)).unwrap();
        sim.step();
        sim.suspensions().len() == 1
    };
    assert!(asks(&["gated"]), "policy asks");
    assert!(asks(&["write", "peer"]), "it is external");
    assert!(!asks(&["write"]));
    assert!(!asks(&["denied"]), "what never runs is no risk");
    assert!(!asks(&[]), "a step that is to think calls nothing");
}

#[test]
fn a_step_that_names_no_tool_may_call_any() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => says(json!({ "todoList": [{ "id": "a", "description": "d", "stepType": "tool" }] }).to_string()),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Risky);
    let plan = shown(&sim);
    assert_eq!((&plan["items"][0]["mayCallAny"], &plan["risky"]), (&json!(true), &json!(true)));
    assert_eq!(plan["tools"].as_array().unwrap().len(), 9, "{plan:#}");
}

/// The plan says that the step only reads; its model sends something to an agent.
#[test]
fn what_a_step_calls_that_the_plan_does_not_name_asks_if_it_reaches_out() {
    let called = |tool: &'static str, named: &'static [&'static str], review| {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], named)]),
            "a.1" => calls(&[(tool, json!({ "x": "1", "agentId": "away", "taskType": "t" }))]),
            _ => does_it(request),
        });
        sim.peers.ways.insert("1".to_owned(), Default::default());
        sim.tools.risk = Some(RiskLevel::High);
        asked(&mut sim, review);
        sim
    };
    for review in [PlanReview::Risky, PlanReview::Always] {
        let mut sim = called("peer", &["read"], review);
        if review == PlanReview::Always {
            approve(&mut sim);
        }
        let open = sim.suspensions();
        assert_eq!((open.len(), open[0].kind, sim.peers.tasks.len()), (1, SuspensionKind::Approval, 0));
        assert!(open[0].message.contains("did not name `peer`"), "{}", open[0].message);
        assert_eq!(open[0].risk_level, Some(RiskLevel::High), "as its tool declares");
        approve(&mut sim);
        assert_eq!(sim.peers.tasks.len(), 1, "it is sent once a person lets it");
    }
    assert_eq!(called("write", &["read"], PlanReview::Risky).suspensions().len(), 0, "it stays here");
    assert_eq!(called("peer", &["read"], PlanReview::Off).peers.tasks.len(), 1, "nobody reviews");
    let mut named = called("peer", &["peer"], PlanReview::Risky);
    approve(&mut named);
    assert_eq!(named.peers.tasks.len(), 1, "the plan showed it");
}

#[test]
fn a_direct_answer_and_a_run_without_reviews_ask_nobody() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"at once","todoList":[]}"#));
    asked(&mut sim, PlanReview::Always);
    assert_eq!((sim.suspensions().len(), ended(&sim).1.as_str()), (0, "success"));
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Off);
    assert_eq!(ended(&sim).0, "completed");
}

#[test]
fn a_plan_without_anything_left_to_begin_is_not_asked_about() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    // What depends on it is cancelled with it.
    sim.apply(Event::Person(PersonEvent::ItemSkipped { item: "read".into(), by: "ann".into() })).unwrap();
    sim.go();
    assert!(sim.is_idle() && sim.suspensions().is_empty());
    let withdrawn = &sim.contents(ObservationType::AgentResumed)[0];
    assert_eq!(withdrawn["reason"], "nothing of the plan is left to begin");
}

/// The first item waits for a person; then a message causes a refinement.
#[test]
fn what_is_under_way_goes_on_and_nothing_else_begins() {
    let mut sim = plans(
        &[("gated", &[], &["gated"]), ("read", &["gated"], &["read"])],
        vec![&[("gated", &[], &["gated"]), ("read", &["gated"], &["read"]), ("write", &[], &["write"])]],
    );
    asked(&mut sim, PlanReview::Always);
    approve(&mut sim);
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::Approval);
    sim.ask_with("and write", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let kinds: Vec<SuspensionKind> = sim.suspensions().iter().map(|open| open.kind).collect();
    assert_eq!(kinds, [SuspensionKind::Approval, SuspensionKind::PlanReview]);
    assert_eq!(statuses(&sim), ["gated:in_progress", "read:pending", "write:pending"]);
    approve(&mut sim);
    assert_eq!(ran(&sim), ["gated:1"]);
    assert_eq!(statuses(&sim), ["gated:completed", "read:pending", "write:pending"]);
    assert_eq!(review(&sim).kind, SuspensionKind::PlanReview);
    approve(&mut sim);
    assert_eq!(ran(&sim), ["gated:1", "read:1", "write:1"]);
    assert_eq!(ended(&sim).1, "success");
}

#[test]
fn a_steps_own_change_of_the_plan_is_reviewed_too() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => says(
            json!({ "content": "found more", "nextStepDecision": "complete_item", "updatedPlan": { "todoList": [
                { "id": "gated", "description": "and pay", "requiredTools": ["gated"] },
            ] } })
            .to_string(),
        ),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Risky);
    assert_eq!(statuses(&sim), ["a:completed", "gated:pending"]);
    assert_eq!(review(&sim).risk_level, Some(RiskLevel::High));
    approve(&mut sim);
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::Approval);
}

#[test]
fn a_person_who_adds_what_is_risky_later_opens_a_review() {
    let mut sim = plans(&[("form", &[], &["form"]), ("read", &["form"], &["read"])], Vec::new());
    sim.script = Box::new(|request| match which(request).as_str() {
        "planning" => plan(&[("form", &[], &["form"]), ("read", &["form"], &["read"])]),
        "form.1" => calls(&[("form", json!({}))]),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Risky);
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::Input, "nothing in the plan is risky");
    edit(&mut sim, |list| {
        list.push(json!({ "id": "gated", "description": "d", "status": "pending", "requiredTools": ["gated"] }));
    });
    assert_eq!(sim.suspensions()[1].kind, SuspensionKind::PlanReview);
}

#[test]
fn a_plan_that_is_made_of_calls_begins_with_a_step_of_its_own() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => calls(&[("write", json!({ "x": "unseen" }))]),
        "1.1" => calls(&[("write", json!({ "x": "seen" }))]),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Always);
    assert_eq!((review(&sim).kind, ran(&sim).len()), (SuspensionKind::PlanReview, 0));
    assert_eq!(shown(&sim)["items"][0]["mayCall"][0]["toolName"], "write");
    approve(&mut sim);
    assert_eq!(ran(&sim), ["write:seen"]);
}

#[test]
fn a_message_during_a_review_has_the_plan_made_anew() {
    let mut sim = plans(&[("write", &[], &["write"])], vec![&[("read", &[], &["read"])]]);
    asked(&mut sim, PlanReview::Always);
    sim.ask_with("only look", OnBusy::Steer, RunSettings::default()).unwrap();
    assert!(sim.suspensions().is_empty(), "a plan that is being changed is not asked about");
    sim.go();
    assert_eq!(statuses(&sim), ["write:cancelled", "read:pending"]);
    review(&sim);
    approve(&mut sim);
    assert_eq!(ran(&sim), ["read:1"]);
}

#[test]
fn every_run_asks_for_itself_though_its_refinement_changes_nothing() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("read", &[], &["read"])]),
        "refinement" => says(json!({ "todoList": [{ "id": "read" }, { "id": "p" }] }).to_string()),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Always);
    approve(&mut sim);
    edit(&mut sim, |list| list.push(json!({ "id": "p", "description": "a person's", "status": "pending" })));
    let version = sim.view()["planVersion"].clone();
    sim.ask_with("go on", OnBusy::Enqueue, reviewing(PlanReview::Always)).unwrap();
    sim.go();
    assert_eq!(sim.view()["planVersion"], version);
    review(&sim);
    approve(&mut sim);
    assert_eq!(statuses(&sim), ["read:completed", "p:completed"]);
}

#[test]
fn a_redone_item_is_said_to_ask_again() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("write", &[], &["write"])]),
        "refinement" => says(json!({ "todoList": [{ "id": "write", "redo": true }] }).to_string()),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Off);
    sim.ask_with("again", OnBusy::Enqueue, reviewing(PlanReview::Risky)).unwrap();
    sim.go();
    let plan = shown(&sim);
    assert_eq!((&plan["items"][0]["mayCall"][0]["action"], &plan["risky"]), (&json!("ask"), &json!(true)));
}

#[test]
fn when_nobody_reviews_in_time_the_policy_says_what_follows() {
    let expiring = |suspension_expiry| {
        let mut sim = two_steps();
        let execution = ExecutionConfig {
            plan_review: PlanReview::Always,
            suspension_timeout_ms: Some(5_000),
            suspension_expiry,
            ..ExecutionConfig::default()
        };
        sim.ask_with("go", OnBusy::Enqueue, with(execution)).unwrap();
        sim.go();
        let open = review(&sim);
        assert_eq!(sim.steps.last().unwrap().wake_at, open.expires_at);
        sim.now = open.expires_at.unwrap();
        sim.wake().unwrap();
        assert_eq!(sim.contents(ObservationType::SuspensionTimeout).len(), 1);
        sim
    };
    let code = |sim: &Sim| sim.run("run_1").outcome.unwrap().error.unwrap().code.as_str();
    let sim = expiring(ExpiryPolicy::Deny);
    assert_eq!((ended(&sim), code(&sim)), (("completed".into(), "partial".into()), "plan_rejected"));
    let sim = expiring(ExpiryPolicy::Fail);
    assert_eq!((ended(&sim), code(&sim)), (("failed".into(), "error".into()), "suspension_timed_out"));
    let mut sim = expiring(ExpiryPolicy::Remind);
    review(&sim);
    approve(&mut sim);
    assert_eq!(ended(&sim).1, "success");
}

#[test]
fn a_cancel_closes_the_review() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    sim.cancel(None).unwrap();
    assert!(sim.is_idle() && sim.suspensions().is_empty());
    assert_eq!(ended(&sim).0, "cancelled");
}

#[test]
fn a_review_outlasts_crashes_and_is_answered_by_whoever_may_commit() {
    let mut sim = two_steps();
    sim.ask_with("go", OnBusy::Enqueue, reviewing(PlanReview::Always)).unwrap();
    while sim.step() {
        sim.crash();
    }
    let before = review(&sim);
    sim.crash();
    assert_eq!(review(&sim), before);
    sim.holds = false;
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert!(sim.in_flight.is_empty() && sim.steps.last().unwrap().wake_at.is_some());
    sim.go();
    assert_eq!((ran(&sim), ended(&sim).1), (vec!["read:1".to_owned(), "write:1".to_owned()], "success".to_owned()));
    let rows = sim.rows.values().filter(|row| row.kind == RowKind::Suspension && row.keep == Keep::Always);
    assert_eq!(rows.count(), 0);
}
