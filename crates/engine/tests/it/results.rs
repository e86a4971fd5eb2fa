//! Results of tools reach the prompts that need them.

use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use serde_json::{Value, json};

use super::sim::*;

/// `b` depends on `a`, `c` on nothing; `a` calls a tool and ends with a meaningless word.
fn closing_with_a_word(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"]), ("b", &["a"], &[]), ("c", &["b"], &[])]),
        "a.1" => calls(&[("read", json!({ "x": 1 })), ("read", json!({ "x": 2 }))]),
        "a.2" => says("Done."),
        other => says(format!("result of {other}")),
    }
}

pub fn prompt_of(sim: &Sim, call: &str) -> String {
    let prompt = sim.prompts.iter().rfind(|prompt| which(prompt) == call).unwrap_or_else(|| panic!("no {call}"));
    all_text(prompt)
}

#[test]
fn a_dependent_item_sees_what_the_tools_of_its_dependency_returned() {
    let mut sim = Sim::new(closing_with_a_word);
    sim.tools.output = Some(json!({ "rate": 4711 }));
    sim.ask("go").unwrap();
    sim.go();
    let seen = prompt_of(&sim, "b.1");
    assert_eq!(seen.matches(r#"Tool read: {"rate":4711}"#).count(), 2, "{seen}");
    assert!(seen.contains("Result: Done."), "{seen}");
    let other = prompt_of(&sim, "c.1");
    assert!(!other.contains("4711") && other.contains("Result: Done."), "only what it depends on: {other}");
}

/// Short outputs are kept whole, however long another is; all of them together are bounded.
#[test]
fn what_tools_of_a_dependency_returned_is_bounded_and_the_longest_is_cut() {
    let mut outputs = vec![json!("y".repeat(10_000)), json!("short")].into_iter();
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "a.1" => calls(&[("form", json!({})), ("form", json!({}))]),
        "a.2" => says("Done."),
        _ => says("fine"),
    });
    let execution = ExecutionConfig { tool_result_max_length: 500, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    for _ in 0..2 {
        sim.answer(0, |answer| answer.value = outputs.next()).unwrap();
    }
    sim.go();
    let seen = prompt_of(&sim, "b.1");
    assert!(seen.contains(&format!("Tool form: {}\n[… 9500 more", "y".repeat(500))), "{seen}");
    assert!(seen.contains("Tool form: short"), "{seen}");
}

/// All of them together have the space of four results.
#[test]
fn what_many_tools_returned_is_cut_where_it_is_longest() {
    let mut outputs = (0..6).map(|_| json!("y".repeat(1_000))).chain([json!("short ".repeat(50))]);
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "a.1" => calls(&vec![("form", json!({})); 7]),
        "a.2" => says("Done."),
        _ => says("fine"),
    });
    let execution = ExecutionConfig { tool_result_max_length: 1_000, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    for _ in 0..7 {
        sim.answer(0, |answer| answer.value = outputs.next()).unwrap();
    }
    sim.go();
    let seen = prompt_of(&sim, "b.1");
    assert!(seen.contains(&"short ".repeat(50)), "{seen}");
    let each = (4_000 - 300) / 6;
    assert_eq!(seen.matches(&format!("{}\n[… ", "y".repeat(each))).count(), 6, "{seen}");
    assert!(!seen.contains(&"y".repeat(each + 1)), "{seen}");
}

/// The model's context is small: the longest result is cut first, and as little as possible.
#[test]
fn where_a_prompt_is_too_long_the_longest_result_is_cut() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("z", &[], &[]), ("b", &["a", "z"], &[])]),
        "a.1" => says("x".repeat(30_000)),
        "z.1" => says(format!("{} the end", "z".repeat(900))),
        _ => says("fine"),
    });
    sim.book.window = Some(8_000);
    sim.ask("go").unwrap();
    sim.go();
    let seen = prompt_of(&sim, "b.1");
    assert!(seen.contains("the end"), "the short one stands whole: {seen}");
    assert!(seen.contains("xxxx\n[… ") && seen.matches('x').count() > 5_000, "and the room is used");
}

/// A prompt does not grow with the plan for ever: it has only as many results of independent items as get a share.
#[test]
fn of_many_results_a_step_has_the_last_and_those_it_depends_on() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[
            ("a", &[], &[]),
            ("b", &[], &[]),
            ("c", &[], &[]),
            ("d", &[], &[]),
            ("e", &[], &[]),
            ("f", &["a"], &[]),
        ]),
        other => says(format!("result of {other}")),
    });
    let execution = ExecutionConfig { tool_result_max_length: 600, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    let seen_of = |call: &str| {
        let seen = prompt_of(&sim, call);
        let of = ["a", "b", "c", "d", "e"].map(|id| seen.contains(&format!("result of {id}.1")));
        let left_out =
            seen.split_once("does not depend on them: ").map(|(_, rest)| rest.split(']').next().unwrap().to_owned());
        (of, left_out)
    };
    assert_eq!(seen_of("d.1"), ([true, true, true, false, false], None));
    assert_eq!(seen_of("e.1"), ([false, true, true, true, false], Some("1".to_owned())));
    assert_eq!(seen_of("f.1"), ([true, false, true, true, true], Some("1".to_owned())));
    assert_eq!(seen_of("synthesis"), ([true; 5], None), "the answer has them all");
}

fn silent_after(required: &'static [&'static str], called: &'static str) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], required)]),
        "a.1" => calls(&[(called, json!({ "x": 1 }))]),
        "synthesis" => says("done"),
        _ => says(" "),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim
}

#[test]
fn an_item_whose_required_tools_succeeded_is_complete_when_nothing_is_said() {
    let sim = silent_after(&["read"], "read");
    let item = sim.item("a");
    assert_eq!((&item["status"], &item["validationStatus"]), (&json!("completed"), &json!("passed")), "{item:#}");
    assert_eq!(item["result"], json!({ "tool": "read", "of": { "x": 1 } }));
    assert_eq!(sim.prompts.iter().map(which).collect::<Vec<_>>(), ["planning", "a.1", "a.2", "synthesis"]);
    let told = prompt_of(&sim, "synthesis");
    assert_eq!(told.matches(r#""tool":"read""#).count(), 1, "once is enough: {told}");
}

#[test]
fn an_item_whose_required_tools_were_not_called_is_not_complete_when_nothing_is_said() {
    let sim = silent_after(&["write"], "read");
    assert_eq!(sim.item("a")["status"], "failed");
    let value: Value = sim.item("a")["result"].clone();
    assert_eq!(value, Value::Null);
}

/// The figures of its call would name a false reason why its prompt is too long.
#[test]
fn nothing_is_shortened_for_a_planner_which_is_shown_no_results() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => {
            let items = ["a", "b", "c"].map(|id| json!({ "id": id, "description": "d".repeat(3_000) }));
            says(json!({ "title": "t", "intent": "i", "plan": "p", "todoList": items }).to_string())
        }
        "refinement" => says(r#"{"answer":"yes","todoList":[]}"#),
        "summary" => fails(FailureKind::Refused),
        _ => says("r".repeat(400)),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.book.window = Some(1_200);
    sim.ask("and now?").unwrap();
    sim.go();
    let asked = sim.prompts.last().unwrap();
    assert_eq!(which(asked), "refinement");
    let fit = asked.context.fit.unwrap();
    assert_eq!((fit.kept, fit.left_out, fit.summarised, fit.shortened), (0, 2, 0, 0));
}
