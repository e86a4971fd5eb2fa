//! A failed or cancelled item is started again; the effects of its earlier calls remain.

use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::model::FailureKind;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::PlanReview;
use pes_engine::event::{Event, PersonEvent};
use serde_json::{Value, json};

use super::peers::{End, Way};
use super::review::{reviewing, shown};
use super::sim::*;

fn arguments(n: i32) -> Value {
    json!({ "n": n, "x": "p", "agentId": "away", "taskType": "t" })
}

/// The first run starts `a`, which requires this tool and calls it. Then its model fails, or the run is cancelled. The
/// next run lists `a` again, and its model replies this.
fn begun_again(tool: &'static str, is_cancelled: bool, says_then: &'static str) -> Sim {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[tool])]),
        "refinement" => {
            let list = json!([{ "id": "a", "description": "do a", "status": "pending", "requiredTools": [tool] }]);
            says(json!({ "title": "t", "intent": "i", "plan": "p", "todoList": list }).to_string())
        }
        "a.1" => {
            begun += 1;
            match begun {
                1 => calls(&[(tool, arguments(1))]),
                2 => says(says_then),
                _ => calls(&[(tool, arguments(begun))]),
            }
        }
        "a.2" if begun == 1 => fails(FailureKind::Refused),
        _ => says("fine"),
    });
    let way = Way { slow: 0, asks: false, wants_login: false, end: End::Done, lists: false, dedupes: false, flaky: 0 };
    sim.peers.ways.insert("p".to_owned(), way);
    sim.ask("go").unwrap();
    if is_cancelled {
        // Planned, called, answered.
        (0..3).for_each(|_| assert!(sim.step()));
        sim.cancel(None).unwrap();
        sim.stop_effects().unwrap();
    } else {
        sim.go();
    }
    assert!(sim.is_idle());
    assert_ne!(sim.item("a")["status"], "completed");
    sim.crash();
    sim.ask("try a again").unwrap();
    sim.go();
    sim
}

/// The numbers of the calls made.
fn ran(sim: &Sim) -> Vec<Value> {
    sim.tools.ran.lock().unwrap().iter().map(|(_, arguments)| arguments["n"].clone()).collect()
}

#[test]
fn a_call_that_had_its_effect_is_not_enforced_again() {
    for is_cancelled in [false, true] {
        let sim = begun_again("write", is_cancelled, "it was written before");
        assert_eq!(ran(&sim), [1], "cancelled: {is_cancelled}");
        let item = sim.item("a");
        assert_eq!((&item["status"], &item["result"]), (&json!("completed"), &json!("it was written before")));
        assert_eq!(item["validationStatus"], "passed");
    }
}

#[test]
fn what_an_agent_did_for_it_is_not_asked_for_again() {
    let sim = begun_again("peer", false, "the agent did it before");
    assert_eq!(sim.item("a")["result"], "the agent did it before");
}

/// Data that was read may have changed.
#[test]
fn a_call_that_only_read_is_enforced_again() {
    let sim = begun_again("read", false, "I know it from before");
    assert_eq!(ran(&sim), [1, 3]);
    assert_eq!((&sim.item("a")["status"], &sim.item("a")["result"]), (&json!("completed"), &json!("fine")));
}

/// An empty reply is no result of a new start without calls.
#[test]
fn an_earlier_call_is_no_result_of_an_item_that_says_nothing() {
    let mut sim = begun_again("write", false, " ");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), [1, 3], "it was asked again, and then it called");
}

/// The failed attempt wrote, or had an agent do it; the next one wants the same.
#[test]
fn a_call_that_had_its_effect_asks_before_it_is_made_again() {
    for (tool, is_cancelled) in [("write", false), ("write", true), ("peer", false)] {
        let mut sim = begun_again(tool, is_cancelled, " ");
        let [open] = &sim.suspensions()[..] else { panic!("{tool}: {:?}", sim.suspensions()) };
        assert_eq!((open.kind, open.tool_name.as_deref()), (SuspensionKind::Approval, Some(tool)));
        let why = format!(
            "An earlier attempt of step a called `{tool}`, which may have had its effect. May `{tool}` run once more with \
             these arguments?"
        );
        assert_eq!(open.message, why);
        sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
        sim.go();
        assert_eq!(ran(&sim), if tool == "write" { vec![json!(1)] } else { Vec::new() }, "no second effect");
    }
}

#[test]
fn a_call_that_only_read_or_is_idempotent_does_not_ask() {
    for tool in ["read", "fetch"] {
        let sim = begun_again(tool, false, " ");
        assert_eq!((sim.suspensions().len(), ran(&sim)), (0, vec![json!(1), json!(3)]), "{tool}");
    }
}

/// A person retries an item while its run goes on, because `b` waits for a person.
#[test]
fn what_an_attempt_that_failed_or_was_skipped_may_have_done_asks_when_a_person_retries_it() {
    for is_skipped in [false, true] {
        let mut has_failed = is_skipped;
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &["write"]), ("b", &[], &["gated"])]),
            "a.1" => calls(&[("write", arguments(1))]),
            "a.2" if !std::mem::replace(&mut has_failed, true) => fails(FailureKind::Refused),
            "b.1" => calls(&[("gated", arguments(2))]),
            _ => says("fine"),
        });
        sim.ask("go").unwrap();
        if is_skipped {
            // Planned, and called.
            (0..2).for_each(|_| assert!(sim.step()));
            sim.apply(Event::Person(PersonEvent::ItemSkipped { item: "a".into(), by: "ann".into() })).unwrap();
        }
        sim.go();
        let status = if is_skipped { "cancelled" } else { "failed" };
        assert_eq!((&sim.item("a")["status"], sim.suspensions().len()), (&json!(status), 1));
        let before = ran(&sim);
        sim.apply(Event::Person(PersonEvent::ItemRetried { item: "a".into(), by: "ann".into() })).unwrap();
        sim.go();
        let asked: Vec<Option<String>> = sim.suspensions().into_iter().map(|open| open.tool_name).collect();
        assert_eq!((asked, ran(&sim)), (vec![Some("gated".into()), Some("write".into())], before), "{status}");
    }
}

#[test]
fn a_forecast_says_that_an_item_which_wrote_before_it_failed_asks() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["write"])]),
        "refinement" => says(json!({ "todoList": [{ "id": "a", "status": "pending" }] }).to_string()),
        "a.1" => calls(&[("write", arguments(1))]),
        "a.2" => fails(FailureKind::Refused),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["status"], "failed");
    sim.ask_with("again", OnBusy::Enqueue, reviewing(PlanReview::Always)).unwrap();
    sim.go();
    let plan = shown(&sim);
    assert_eq!((&plan["items"][0]["mayCall"][0]["action"], &plan["risky"]), (&json!("ask"), &json!(true)), "{plan:#}");
}

/// Its earlier result does not count, so neither do its calls; a person is asked first.
#[test]
fn a_completed_item_that_is_done_again_makes_its_calls_again() {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["write"])]),
        "refinement" => says(json!({ "todoList": [{ "id": "a", "description": "do a", "redo": true }] }).to_string()),
        "a.1" => {
            begun += 1;
            if begun == 2 { says("it was written before") } else { calls(&[("write", arguments(begun))]) }
        }
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("again").unwrap();
    sim.go();
    assert_eq!((ran(&sim), sim.suspensions().len()), (vec![json!(1)], 1));
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), [1, 3]);
}
