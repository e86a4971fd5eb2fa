//! Calls that were made after the place to which a thread goes back, or at which it is copied: their effects remain.

use std::sync::Arc;

use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::model::ModelRequest;
use pes_engine::domain::observation::ObservationType;
use pes_engine::pes::Pes;
use serde_json::json;

use super::sim::*;

/// Answers "hello" at once. For any other query one item, named after the query, calls the tool; a query with "other" in
/// it does so with other arguments, and one with "twice" two times.
fn script(tool: &'static str) -> impl FnMut(&ModelRequest) -> Reply {
    move |request| {
        let query = request.context.query.clone();
        match which(request).as_str() {
            "planning" | "refinement" if query == "hello" => says(r#"{"answer":"yes","todoList":[]}"#),
            "planning" | "refinement" => {
                todo([json!({ "id": query, "description": "do it", "status": "pending", "requiredTools": [tool] })])
            }
            step if step.ends_with(".1") || step.ends_with(".2") && query.contains("twice") => {
                calls(&[(tool, json!({ "x": query.contains("other") }))])
            }
            _ => says("fine"),
        }
    }
}

fn calling(tool: &'static str) -> Sim {
    Sim::new(script(tool))
}

fn finish(sim: &mut Sim, query: &str) {
    sim.ask(query).unwrap();
    sim.go();
    assert!(sim.is_idle(), "{query}");
}

/// A process that claims the thread has what the one before had.
fn go_back(sim: &mut Sim, messages: usize, query: &str) {
    let back = sim.back_to(messages);
    sim.ask_again(query, back).unwrap();
    sim.reload();
    sim.go();
}

fn asked(sim: &Sim) -> Vec<String> {
    sim.suspensions().into_iter().map(|open| open.message).collect()
}

fn ran(sim: &Sim) -> usize {
    sim.tools.ran.lock().unwrap().len()
}

fn asks_again(tool: &str) -> Vec<String> {
    vec![format!(
        "`{tool}` was called with the same arguments in another continuation of this conversation, which may have had its \
         effect. May `{tool}` run once more with these arguments?"
    )]
}

fn react(tool: &'static str) -> Sim {
    Sim::of(Arc::new(Pes::react()), script(tool))
}

/// A thread whose ids are none of the other's.
fn later_than(other: &Sim, mut sim: Sim) -> Sim {
    sim.now = other.now + 1_000;
    sim
}

fn approve(sim: &mut Sim) {
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
}

#[test]
fn a_thread_that_went_back_asks_before_it_makes_the_same_call_again() {
    for mut sim in [calling("write"), react("write")] {
        for query in ["hello", "post"] {
            finish(&mut sim, query);
        }
        let before = ran(&sim);
        go_back(&mut sim, 2, "post it");
        assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), before));
        approve(&mut sim);
        assert_eq!((sim.is_idle(), ran(&sim)), (true, before + 1));
        // What a later run orders is ordered anew.
        finish(&mut sim, "post once more");
        assert_eq!(ran(&sim), before + 2);
    }
}

#[test]
fn what_a_person_has_approved_is_not_asked_about_again() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    go_back(&mut sim, 2, "post it twice");
    assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), 1));
    approve(&mut sim);
    assert_eq!((sim.is_idle(), ran(&sim)), (true, 3));
}

/// The yes is about what runs.
#[test]
fn a_call_that_was_approved_with_other_arguments_is_asked_about_again() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    go_back(&mut sim, 2, "post it twice");
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "x": 7 }));
    })
    .unwrap();
    sim.go();
    assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), 2));
}

/// A run without a plan does not know of the calls of the run whose query is kept.
#[test]
fn without_a_plan_it_asks_also_where_the_query_is_kept() {
    let mut sim = react("write");
    finish(&mut sim, "post");
    go_back(&mut sim, 1, "post it");
    assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), 1));
}

/// Nor does one of a copy know of the calls of the run that was active at the place.
#[test]
fn a_copy_amid_a_run_without_a_plan_asks_for_what_that_run_had_called() {
    let mut sim = react("write");
    finish(&mut sim, "post");
    let called = sim.records.iter().position(|record| record.kind() == ObservationType::ToolExecution).unwrap();
    for (place, expected) in [(called + 1, asks_again("write")), (sim.records.len(), Vec::new())] {
        let mut copy = sim.fork_into(later_than(&sim, react("write")), place);
        copy.reload();
        copy.ask("post it").unwrap();
        copy.go();
        assert_eq!(asked(&copy), expected, "{place}");
    }
}

/// The call was made in a part of the conversation that counted no more already.
#[test]
fn it_asks_however_often_it_goes_back() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    go_back(&mut sim, 2, "hello");
    assert!(sim.is_idle());
    go_back(&mut sim, 2, "post it");
    assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), 1));
    cancel_and_ask(&mut sim);
    assert_eq!((asked(&sim), ran(&sim)), (asks_again("write"), 1));
}

fn cancel_and_ask(sim: &mut Sim) {
    sim.cancel(None).unwrap();
    sim.go();
    sim.ask("post now").unwrap();
    sim.go();
}

#[test]
fn other_calls_and_those_that_are_harmless_are_not_asked_about() {
    for (tool, query, most) in [("write", "post other", 2), ("read", "post it", 2), ("fetch", "post it", 2)] {
        let mut sim = calling(tool);
        for query in ["hello", "post"] {
            finish(&mut sim, query);
        }
        go_back(&mut sim, 2, query);
        assert_eq!((asked(&sim), ran(&sim)), (Vec::new(), most), "{tool}");
    }
}

#[test]
fn what_the_callers_own_program_carries_out_is_not_asked_about() {
    let mut sim = calling("client");
    sim.tools.has_client = true;
    finish(&mut sim, "hello");
    let carries_out = |sim: &mut Sim| {
        let kinds: Vec<SuspensionKind> = sim.suspensions().into_iter().map(|open| open.kind).collect();
        assert_eq!(kinds, [SuspensionKind::ClientTool]);
        sim.answer(0, |answer| answer.value = Some(json!("done"))).unwrap();
        sim.go();
        assert!(sim.is_idle());
    };
    sim.ask("post").unwrap();
    sim.go();
    carries_out(&mut sim);
    go_back(&mut sim, 2, "post it");
    carries_out(&mut sim);
}

#[test]
fn a_copy_asks_before_it_makes_a_call_that_the_thread_made_after_that_place() {
    let mut sim = calling("write");
    finish(&mut sim, "hello");
    let place = sim.records.len();
    finish(&mut sim, "post");
    let mut copy = sim.fork_into(calling("write"), place);
    copy.reload();
    copy.ask("post it").unwrap();
    copy.go();
    assert_eq!((asked(&copy), ran(&copy)), (asks_again("write"), 0));
    approve(&mut copy);
    assert_eq!(ran(&copy), 1);

    // Called before that place: the conversation is about it.
    let mut copy = sim.fork_into(calling("write"), sim.records.len());
    finish(&mut copy, "post it");
    assert_eq!(ran(&copy), 1);
}

/// A run that did not complete made no such call.
#[test]
fn a_copy_of_a_thread_that_still_asks_does_so_too() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    go_back(&mut sim, 2, "post it");
    sim.cancel(None).unwrap();
    sim.go();
    let mut copy = sim.fork_into(later_than(&sim, calling("write")), sim.records.len());
    for _ in 0..2 {
        copy.ask("post now").unwrap();
        copy.go();
        assert_eq!((asked(&copy), ran(&copy)), (asks_again("write"), 0));
        copy.cancel(None).unwrap();
        copy.go();
        copy = copy.fork_into(later_than(&copy, calling("write")), copy.records.len());
    }
}

/// The log of a copy has the calls that it was begun with only in its plan.
#[test]
fn a_copy_that_goes_back_asks_likewise_for_what_it_was_begun_with() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    let mut copy = sim.fork_into(calling("write"), sim.records.len());
    for _ in 0..2 {
        go_back(&mut copy, 2, "hello");
        assert!(copy.is_idle());
    }
    go_back(&mut copy, 2, "post it");
    assert_eq!((asked(&copy), ran(&copy)), (asks_again("write"), 0));
}

/// Neither the plan nor the conversation of that place knows of it, as in the thread itself then.
#[test]
fn a_copy_of_a_thread_that_had_gone_back_asks_for_what_was_called_before_that() {
    let mut sim = calling("write");
    for query in ["hello", "post"] {
        finish(&mut sim, query);
    }
    let back = sim.back_to(2);
    sim.ask_again("hello", back).unwrap();
    let began = sim.records.len();
    sim.go();
    for (place, expected) in [(began, asks_again("write")), (sim.records.len(), Vec::new())] {
        let mut copy = sim.fork_into(later_than(&sim, calling("write")), place);
        copy.reload();
        copy.ask("post it").unwrap();
        copy.go();
        assert_eq!((asked(&copy), ran(&copy)), (expected.clone(), 1 - expected.len()), "{place}");
    }
}
