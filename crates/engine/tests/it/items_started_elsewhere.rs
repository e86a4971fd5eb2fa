//! An item was in progress where a thread is copied, or to where a thread goes back; the effects of its calls remain.

use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{PlanReview, RunSettings};
use serde_json::{Value, json};

use super::peers::{End, Way};
use super::review::{approve, reviewing, shown};
use super::sim::*;

/// Item `a` requires this tool and calls it whenever it begins.
fn calling(tool: &'static str) -> Sim {
    let arguments = json!({ "x": "p", "agentId": "away", "taskType": "t" });
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[tool])]),
        "refinement" => {
            todo([json!({ "id": "a", "description": "do a", "status": "pending", "requiredTools": [tool] })])
        }
        "a.1" => calls(&[(tool, arguments.clone())]),
        _ => says("fine"),
    });
    let way = Way { slow: 2, asks: false, wants_login: false, end: End::Done, lists: false, dedupes: false, flaky: 0 };
    sim.peers.ways.insert("p".to_owned(), way);
    sim.tools.has_client = true;
    sim
}

/// `a` has called the tool; this many effects were performed since.
fn called(tool: &'static str, effects: usize) -> Sim {
    let mut sim = calling(tool);
    sim.ask("go").unwrap();
    // Planned, and called.
    (0..2 + effects).for_each(|_| assert!(sim.step()));
    assert_ne!(sim.item("a")["status"], "completed");
    sim
}

fn copied(sim: &Sim, tool: &'static str) -> Sim {
    let mut copy = sim.fork_into(calling(tool), sim.records.len());
    assert_eq!(copy.item("a")["status"], "pending");
    copy.reload();
    copy
}

fn ran(sim: &Sim) -> usize {
    sim.tools.ran.lock().unwrap().len()
}

fn codes(sim: &Sim) -> Vec<Value> {
    let item = sim.item("a");
    item["toolResults"].as_array().unwrap().iter().map(|result| result["error"]["code"].clone()).collect()
}

fn asks_again(tool: &str) -> String {
    format!(
        "An earlier attempt of step a called `{tool}`, which may have had its effect. May `{tool}` run once more with these \
         arguments?"
    )
}

fn asked(sim: &Sim) -> Vec<String> {
    sim.suspensions().into_iter().map(|open| open.message).collect()
}

/// It had returned, it ran, an agent or the client's own program had it.
#[test]
fn a_copy_asks_before_it_calls_again_what_the_item_in_progress_had_called() {
    for (tool, effects, code) in [
        ("write", 1, Value::Null),
        ("write", 0, json!("unknown")),
        ("peer", 1, json!("unknown")),
        ("client", 0, json!("unknown")),
    ] {
        let mut copy = copied(&called(tool, effects), tool);
        assert_eq!(codes(&copy), [code], "{tool}, {effects}");
        copy.ask("go on").unwrap();
        copy.go();
        assert_eq!((asked(&copy), ran(&copy)), (vec![asks_again(tool)], 0), "{tool}, {effects}");
    }
}

#[test]
fn a_copy_asks_before_it_calls_again_what_was_in_doubt() {
    let mut sim = called("write", 0);
    sim.crash();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::InDoubt);
    let mut copy = copied(&sim, "write");
    copy.ask("go on").unwrap();
    copy.go();
    assert_eq!((asked(&copy), ran(&copy)), (vec![asks_again("write")], 0));
    // A copy of the copy knows it, too.
    let mut again = copied(&copied(&sim, "write"), "write");
    again.ask("go on").unwrap();
    again.go();
    assert_eq!((asked(&again), ran(&again)), (vec![asks_again("write")], 0));
}

#[test]
fn a_forecast_of_a_copy_says_that_an_item_which_wrote_asks() {
    let mut copy = copied(&called("write", 1), "write");
    copy.ask_with("go on", OnBusy::Enqueue, reviewing(PlanReview::Always)).unwrap();
    copy.go();
    let plan = shown(&copy);
    assert_eq!((&plan["items"][0]["mayCall"][0]["action"], &plan["risky"]), (&json!("ask"), &json!(true)), "{plan:#}");
}

/// Data that was read may have changed.
#[test]
fn a_copy_of_an_item_that_only_read_reads_again() {
    for effects in [0, 1] {
        let mut copy = copied(&called("read", effects), "read");
        let mut replies = vec![says("fine"), calls(&[("read", json!({}))]), says("I know it from before")];
        copy.script = Box::new(move |request| match which(request).as_str() {
            "refinement" => todo([json!({ "id": "a", "status": "pending" })]),
            "synthesis" => says("done"),
            _ => replies.pop().unwrap(),
        });
        copy.ask("go on").unwrap();
        copy.go();
        assert_eq!((&copy.item("a")["status"], ran(&copy)), (&json!("completed"), 1), "{effects}");
    }
}

#[test]
fn what_waited_for_a_yes_or_an_answer_was_not_done() {
    for tool in ["gated", "form"] {
        let sim = called(tool, 0);
        let before = asked(&sim);
        let mut copy = copied(&sim, tool);
        assert_eq!(copy.item("a").get("toolCalls").and_then(Value::as_array).map_or(0, Vec::len), 0, "{tool}");
        copy.ask("go on").unwrap();
        copy.go();
        assert_eq!(asked(&copy), before, "{tool}: as the first time");
    }
}

/// The run was steered when its item had called, and it goes back to before that.
fn taken_back(tool: &'static str, effects: usize, meanwhile: impl FnOnce(&mut Sim)) -> Sim {
    let mut sim = called(tool, effects);
    sim.ask_with("otherwise", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    meanwhile(&mut sim);
    assert!(sim.is_idle());
    let back = sim.back_to(1);
    sim.ask_again("in yet another way", back).unwrap();
    assert_eq!(sim.item("a")["status"], "pending");
    sim.reload();
    sim.go();
    sim
}

#[test]
fn an_item_that_had_called_where_its_thread_goes_back_to_asks_before_it_calls_again() {
    for (tool, effects, ran_before) in [("write", 1, 1), ("write", 0, 1), ("peer", 1, 0)] {
        let mut sim = taken_back(tool, effects, |_| ());
        assert_eq!((asked(&sim), ran(&sim)), (vec![asks_again(tool)], ran_before), "{tool}, {effects}");
        approve(&mut sim);
        assert_eq!(sim.item("a")["status"], "completed", "{tool}, {effects}");
    }
}

/// It waited for a yes there, and got one, or did not.
#[test]
fn what_was_approved_after_the_place_to_which_a_thread_goes_back_was_done() {
    for is_approved in [false, true] {
        let mut sim = taken_back("gated", 0, |sim| {
            sim.answer(0, |answer| answer.approved = Some(is_approved)).unwrap();
            sim.go();
        });
        let done = sim.item("a")["toolResults"].as_array().map_or(0, Vec::len);
        assert_eq!((asked(&sim).len(), ran(&sim)), (1, usize::from(is_approved)));
        approve(&mut sim);
        assert_eq!(done, usize::from(is_approved), "{is_approved}");
    }
}
