//! The answers to a plan review: yes, another plan, an edited one, no.

use pes_engine::domain::hitl::{ExpiryPolicy, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, PlanReview, RunSettings};
use pes_engine::event::{Event, PersonEvent};
use serde_json::{Value, json};

use super::review::*;
use super::sim::*;
use super::suspend::ran;

#[test]
fn a_rejection_with_a_reason_is_told_to_the_planner_and_its_next_plan_is_reviewed() {
    let mut sim = plans(&[("write", &[], &["write"])], vec![&[("read", &[], &["read"])]]);
    asked(&mut sim, PlanReview::Always);
    let first = review(&sim).suspension_id;
    reject(&mut sim, "only look");
    let told = format!("{:?}", sim.prompts[1].messages);
    assert!(told.contains("rejected this plan before it ran: only look"), "{told}");
    assert_ne!(review(&sim).suspension_id, first);
    assert_eq!(sim.run("run_1").requested_by, ["eve", "ann"], "who tells the planner what to do steers the run");
    assert_eq!(statuses(&sim), ["write:cancelled", "read:pending"]);
    approve(&mut sim);
    assert_eq!((ran(&sim), ended(&sim).1), (vec!["read:1".to_owned()], "success".to_owned()));
}

#[test]
fn a_rejection_without_a_reason_ends_the_run_with_an_account() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    reject(&mut sim, "  ");
    assert!(sim.is_idle() && sim.suspensions().is_empty() && ran(&sim).is_empty());
    assert_eq!(ended(&sim), ("completed".into(), "partial".into()));
    let error = sim.run("run_1").outcome.unwrap().error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("plan_rejected", "The plan was rejected: a person said no.")
    );
    assert_eq!(statuses(&sim), ["read:cancelled", "write:cancelled"]);
}

#[test]
fn plans_are_sent_back_so_often_and_no_oftener() {
    let mut sim = plans(&[("a", &[], &[])], vec![&[("b", &[], &[])], &[("c", &[], &[])]]);
    let execution =
        ExecutionConfig { plan_review: PlanReview::Always, max_iterations: 2, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, with(execution)).unwrap();
    sim.go();
    for _ in 0..3 {
        assert!(!sim.is_idle());
        reject(&mut sim, "another one");
    }
    assert!(sim.is_idle());
    assert_eq!(sim.run("run_1").outcome.unwrap().error.unwrap().code.as_str(), "plan_rejected");
}

#[test]
fn a_planner_that_insists_or_fails_is_not_a_yes() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "refinement" => plan(&[("write", &[], &["write"])]),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Always);
    reject(&mut sim, "no");
    assert_eq!((review(&sim).status, ran(&sim).len()), (pes_engine::domain::hitl::SuspensionStatus::Pending, 0));
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("write", &[], &["write"])]),
        _ => says("I do not plan"),
    });
    asked(&mut sim, PlanReview::Always);
    reject(&mut sim, "no");
    assert_eq!((review(&sim).kind, ran(&sim).len()), (SuspensionKind::PlanReview, 0));
}

/// The risky part is removed while a person is asked, so the rest needs no review. The person says no; the refinement
/// fails, or gives the same list.
#[test]
fn what_was_rejected_does_not_run_for_being_harmless() {
    for plans_again in [false, true] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("gated", &[], &["gated"]), ("write", &[], &["write"])]),
            "refinement" if plans_again => plan(&[("write", &[], &["write"])]),
            "refinement" => says("I do not plan"),
            _ => does_it(request),
        });
        asked(&mut sim, PlanReview::Risky);
        edit(&mut sim, |list| list.retain(|item| item["id"] == "write"));
        assert_eq!(shown(&sim)["risky"], false, "it is asked about since it was asked about before");
        reject(&mut sim, "not that either");
        assert_eq!((review(&sim).kind, ran(&sim).len()), (SuspensionKind::PlanReview, 0), "{plans_again}");
        approve(&mut sim);
        assert_eq!(ran(&sim), ["write:1"]);
    }
}

/// The person approved the plan that followed their no; what a step adds later is judged separately.
#[test]
fn after_a_yes_what_is_harmless_asks_nobody_though_a_plan_was_rejected_before() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("gated", &[], &["gated"])]),
        "refinement" => plan(&[("write", &[], &["write"])]),
        "write.2" => {
            let more = json!([{ "id": "read", "description": "look once more", "requiredTools": ["read"] }]);
            says(json!({ "content": "written", "updatedPlan": { "todoList": more } }).to_string())
        }
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Risky);
    reject(&mut sim, "only write");
    assert_eq!(shown(&sim)["risky"], false, "it is asked about as it was rejected");
    approve(&mut sim);
    assert!(sim.suspensions().is_empty(), "{:?}", sim.suspensions());
    assert_eq!(ran(&sim), ["write:1", "read:1"]);
    assert_eq!(ended(&sim), ("completed".into(), "success".into()));
}

#[test]
fn a_planner_that_answers_instead_ends_the_run() {
    for (other_plans, left) in [(0, &["write:cancelled"][..]), (1, &["write:cancelled", "read:cancelled"][..])] {
        let mut more = other_plans;
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("write", &[], &["write"])]),
            "refinement" if more > 0 => {
                more -= 1;
                plan(&[("read", &[], &["read"])])
            }
            _ => says(r#"{"answer":"then I leave it","todoList":[]}"#),
        });
        asked(&mut sim, PlanReview::Always);
        (0..=other_plans).for_each(|_| reject(&mut sim, "leave it"));
        assert!(sim.is_idle() && ran(&sim).is_empty());
        let answer = &sim.contents(ObservationType::FinalResponse)[0]["message"]["content"];
        assert_eq!(answer, "then I leave it");
        assert_eq!(
            (statuses(&sim), sim.prompts.len()),
            (left.iter().map(|it| (*it).to_owned()).collect(), 2 + other_plans)
        );
    }
}

/// The step writes, and is skipped before it ends.
#[test]
fn a_planner_that_answers_instead_does_not_hide_what_a_skipped_step_did() {
    let mut refinements = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("both", &[], &["write", "gated"])]),
        "refinement" => {
            refinements += 1;
            if refinements == 1 {
                plan(&[("both", &[], &["write", "gated"]), ("read", &[], &["read"])])
            } else {
                says(r#"{"answer":"then I leave it","todoList":[]}"#)
            }
        }
        "both.1" => calls(&[("write", json!({ "x": "1" }))]),
        "both.2" => calls(&[("gated", json!({ "x": "1" }))]),
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Always);
    approve(&mut sim);
    sim.ask_with("and look", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    sim.apply(Event::Person(PersonEvent::ItemSkipped { item: "both".into(), by: "ann".into() })).unwrap();
    sim.go();
    reject(&mut sim, "leave it");
    assert!(sim.is_idle());
    assert_eq!(
        (ran(&sim), statuses(&sim)),
        (vec!["write:1".to_owned()], vec!["both:cancelled".to_owned(), "read:cancelled".to_owned()])
    );
    let answer = &sim.contents(ObservationType::FinalResponse)[0]["message"]["content"];
    assert_eq!(answer, "the answer", "that of the synthesis, which is told of the step");
}

#[test]
fn an_edited_plan_is_what_runs_and_its_editor_shaped_it() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "todoList": [
            { "id": "read", "description": "look closely", "status": "pending", "requiredTools": ["read"] },
            { "id": "gated", "description": "ask first", "status": "pending", "requiredTools": ["gated"] },
        ] }));
    })
    .unwrap();
    sim.go();
    let resumed = &sim.contents(ObservationType::AgentResumed)[0];
    assert_eq!((&resumed["decision"], &resumed["decidedBy"]), (&json!("modified"), &json!("ann")));
    assert_eq!(sim.contents(ObservationType::PlanUpdate)[1]["source"], "user");
    assert_eq!(sim.run("run_1").requested_by, ["eve", "ann"]);
    let open = sim.suspensions();
    assert_eq!((open.len(), open[0].kind), (1, SuspensionKind::Approval), "approving a plan approves no call of it");
    approve(&mut sim);
    assert_eq!(ran(&sim), ["read:1", "gated:1"]);
    assert_eq!(sim.item("read")["description"], "look closely");
}

#[test]
fn an_edit_that_cannot_be_made_is_refused_at_its_place_and_the_question_stays() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    let item = |id: &str, more: Value| {
        let mut item = json!({ "id": id, "description": "d", "status": "pending" });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let cases = [
        (json!([]), "/modifiedArgs"),
        (json!({}), "/modifiedArgs/todoList"),
        (json!({ "todoList": {} }), "/modifiedArgs/todoList"),
        (json!({ "todoList": [] }), "/modifiedArgs/todoList"),
        (json!({ "todoList": [item("read", json!({ "status": "cancelled" }))] }), "/modifiedArgs/todoList"),
        (json!({ "todoList": [], "plan/x": 1 }), "/modifiedArgs/plan~1x"),
        (
            json!({ "todoList": [item("a", json!({ "requiredTools": ["none"] }))] }),
            "/modifiedArgs/todoList/0/requiredTools",
        ),
        (json!({ "todoList": [item("a", json!({ "dependencies": ["a"] }))] }), "/modifiedArgs/todoList/0/dependencies"),
    ];
    for (edited, pointer) in cases {
        let refused = sim.answer(0, |answer| {
            answer.approved = Some(true);
            answer.modified_args = Some(edited.clone());
        });
        let fault = refused.unwrap_err();
        assert_eq!((fault.code.status(), fault.errors[0].pointer.as_str()), (422, pointer), "{edited}");
    }
    let refused = sim.answer(0, |answer| answer.value = Some(json!("yes"))).unwrap_err();
    assert_eq!(refused.errors[0].pointer, "/approved");
    approve(&mut sim);
    assert_eq!(ended(&sim).1, "success");
}

/// The run would answer from nothing.
#[test]
fn an_edit_that_leaves_nothing_to_do_is_refused_during_a_run() {
    type Edit = fn(&mut Vec<Value>);
    let edits: [Edit; 2] = [Vec::clear, |list| list.iter_mut().for_each(|item| item["status"] = json!("cancelled"))];
    let refused = |sim: &mut Sim, edit: Edit, how: &str| {
        let fault = sim.edit_plan("bob", edit).unwrap_err();
        assert_eq!((fault.code.as_str(), fault.errors[0].pointer.as_str()), ("plan_invalid", ""));
        assert!(fault.detail.contains(how), "{}", fault.detail);
    };
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    let open = review(&sim);
    edits.into_iter().for_each(|edit| refused(&mut sim, edit, "reject the plan"));
    assert_eq!(review(&sim), open, "the question stays");
    edit(&mut sim, |list| list.truncate(1));
    approve(&mut sim);
    assert_eq!((ran(&sim), ended(&sim).1), (vec!["read:1".to_owned()], "success".to_owned()));

    let mut sim = two_steps();
    sim.ask("go").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "bob".into() })).unwrap();
    sim.go();
    edits.into_iter().for_each(|edit| refused(&mut sim, edit, "cancel the run"));

    let mut sim = two_steps();
    edit(&mut sim, |list| list.push(json!({ "id": "later", "description": "later" })));
    edit(&mut sim, Vec::clear);
    assert!(statuses(&sim).is_empty(), "the plan of an idle thread may be emptied");
}

#[test]
fn an_edited_plan_is_asked_about_anew_and_nobody_approves_what_they_did_not_see() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    let stale = review(&sim);
    edit(&mut sim, |list| list[1]["requiredTools"] = json!(["gated"]));
    let now = review(&sim);
    assert_ne!((&now.suspension_id, &now.digest), (&stale.suspension_id, &stale.digest));
    assert_eq!(shown(&sim)["items"][1]["mayCall"][0]["toolName"], "gated");
    let withdrawn = &sim.contents(ObservationType::AgentResumed)[0];
    assert_eq!((&withdrawn["decision"], &withdrawn["reason"]), (&json!("cancelled"), &json!("the plan was changed")));
    let refused = sim.answer(0, |answer| {
        answer.suspension_id = stale.suspension_id.clone();
        answer.approved = Some(true);
    });
    assert_eq!(refused.unwrap_err().code.as_str(), "not_found", "the store knows what became of it");
    let refused = sim.answer(0, |answer| {
        answer.digest = stale.digest.clone();
        answer.approved = Some(true);
    });
    assert_eq!(refused.unwrap_err().code.as_str(), "approval_mismatch");
    assert!(ran(&sim).is_empty());
}

#[test]
fn a_question_follows_an_edit_made_during_a_pause() {
    let mut sim = two_steps();
    asked(&mut sim, PlanReview::Always);
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "bob".into() })).unwrap();
    let stale = review_among(&sim);
    edit(&mut sim, |list| list[0]["description"] = json!("otherwise"));
    assert_ne!(review_among(&sim), stale);
    let id = review_among(&sim);
    sim.answer(0, |answer| {
        answer.suspension_id = id;
        answer.approved = Some(true);
    })
    .unwrap();
    sim.go();
    assert!(ran(&sim).is_empty(), "it is paused still");
    approve(&mut sim);
    assert_eq!(ended(&sim).1, "success");
}

fn review_among(sim: &Sim) -> pes_engine::domain::ids::SuspensionId {
    let open = sim.suspensions();
    let review = open.into_iter().find(|open| open.kind == SuspensionKind::PlanReview);
    review.expect("a review is open").suspension_id
}

#[test]
fn a_rejection_without_a_reason_stops_what_is_under_way() {
    let mut sim = plans(&[("gated", &[], &["gated"])], vec![&[("gated", &[], &["gated"]), ("write", &[], &["write"])]]);
    asked(&mut sim, PlanReview::Always);
    approve(&mut sim);
    sim.ask_with("and write", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    // The call that was approved runs when the plan is rejected.
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(sim.in_flight.len(), 1);
    let step = sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    assert!(step.is_cancelling, "the holder stops it first");
    sim.stop_effects().unwrap();
    assert!(sim.is_idle());
    assert_eq!(sim.run("run_1").outcome.unwrap().error.unwrap().code.as_str(), "plan_rejected");
}

#[test]
fn a_plan_that_nobody_reviewed_in_time_is_not_left_pending() {
    for (policy, reason, end) in [
        (ExpiryPolicy::Fail, "nobody reviewed the plan in time", "failed"),
        (ExpiryPolicy::Deny, "the plan was rejected", "completed"),
    ] {
        let mut sim = two_steps();
        let execution = ExecutionConfig {
            plan_review: PlanReview::Always,
            suspension_timeout_ms: Some(5_000),
            suspension_expiry: policy,
            ..ExecutionConfig::default()
        };
        sim.ask_with("go", OnBusy::Enqueue, with(execution)).unwrap();
        sim.go();
        sim.now = review(&sim).expires_at.unwrap();
        sim.wake().unwrap();
        assert_eq!(
            (statuses(&sim), ended(&sim).0),
            (vec!["read:cancelled".into(), "write:cancelled".into()], end.into())
        );
        assert_eq!(sim.item("read")["reason"], reason);
        assert!(sim.is_idle() && sim.suspensions().is_empty());
    }
}

/// That the first plan was sent back is over once there was another one.
#[test]
fn a_planner_that_answers_later_on_drops_no_plan_that_was_approved() {
    let mut asked_again = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("read", &[], &["read"]), ("write", &[], &["write"])]),
        "refinement" => {
            asked_again += 1;
            match asked_again {
                1 => plan(&[("read", &[], &["read"]), ("gated", &["read"], &["gated"])]),
                _ => says(r#"{"answer":"soon","todoList":[]}"#),
            }
        }
        _ => does_it(request),
    });
    asked(&mut sim, PlanReview::Always);
    reject(&mut sim, "do not write");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.ask_with("when?", OnBusy::Steer, reviewing(PlanReview::Always)).unwrap();
    sim.go();
    assert_eq!(statuses(&sim), ["read:completed", "write:cancelled", "gated:in_progress"]);
}
