//! A failed or cancelled item is started again; the effects of its earlier calls remain.

use pes_engine::domain::model::FailureKind;
use serde_json::{Value, json};

use super::peers::{End, Way};
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
    let sim = begun_again("write", false, " ");
    assert_eq!(ran(&sim).len(), 2, "it was asked again, and then it called");
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
