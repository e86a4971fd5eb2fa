//! Steps with short replies, several calls in one reply, and the reasons why an item did not start.

use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use serde_json::json;

use super::sim::*;
use super::suspend::{one_item, ran};

/// One item with one call, and then these replies of the model in turn.
fn after_a_call(said: &'static [&'static str]) -> Sim {
    let mut said = said.iter();
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("sum", json!({ "x": 1 }))]),
        "synthesis" => says("done"),
        _ => says(*said.next().expect("one more reply")),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim
}

#[test]
fn a_step_that_only_says_that_the_item_is_complete_has_what_its_last_call_brought() {
    let sim = after_a_call(&[r#"{"thoughts":"that was all","nextStepDecision":"complete_item"}"#]);
    let item = sim.item("a");
    assert_eq!((&item["status"], &item["result"]["tool"]), (&json!("completed"), &json!("sum")), "{item:#}");
}

#[test]
fn a_step_that_only_wants_to_go_on_does() {
    let sim = after_a_call(&[r#"{"nextStepDecision":"continue"}"#, "the sum is one"]);
    assert_eq!(sim.item("a")["result"], "the sum is one");
    assert_eq!(sim.prompts.iter().map(which).collect::<Vec<_>>(), ["planning", "a.1", "a.2", "a.3", "synthesis"]);
    let [.., said, last] = sim.prompts[3].messages.as_slice() else { panic!("{:?}", sim.prompts[3].messages) };
    assert!(matches!(said, PromptMessage::Assistant { .. }), "its own words are shown: {said:?}");
    let asked = PromptMessage::User { content: "Go on: call a tool, or answer with the result.".into() };
    assert_eq!(last, &asked, "providers refuse a prompt that ends with the model's words");
}

#[test]
fn a_last_reply_is_asked_for_once() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => says(r#"{"thoughts":"not yet","nextStepDecision":"continue"}"#),
        _ => says("fine"),
    });
    let execution = ExecutionConfig { max_iterations: 2, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    let [.., said, PromptMessage::User { content }] = sim.prompts[2].messages.as_slice() else { panic!("no question") };
    assert!(matches!(said, PromptMessage::Assistant { .. }) && content.starts_with("This is your last reply"));
}

#[test]
fn complete_without_a_word_or_a_call_is_no_result() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => says(r#"{"nextStepDecision":"complete_item"}"#),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("empty_reply"));
}

#[test]
fn what_was_answered_at_once_was_called() {
    let item = after_a_call(&["one"]).item("a");
    assert_eq!(item["actualToolCalls"], item["toolCalls"]);
    assert_eq!(item["actualToolCalls"][0]["toolName"], "sum");
}

#[test]
fn a_call_that_a_person_approves_waits_for_the_one_that_runs() {
    let mut sim = Sim::new(one_item(&[("gated", "1"), ("write", "2")]));
    sim.ask("go").unwrap();
    while sim.suspensions().is_empty() {
        assert!(sim.step());
    }
    let running = sim.in_flight.clone();
    assert_eq!(running.len(), 1);
    let step = sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!((&sim.in_flight, step.wake_at), (&running, None), "one after another");
    sim.go();
    assert_eq!(ran(&sim), ["write:2", "gated:1"]);
}

/// The server refuses this limit; other programs may set it.
#[test]
fn a_model_whose_calls_are_all_dropped_is_told_so_until_its_iterations_end() {
    let called = || calls(&[("read", json!({ "x": 1 }))]);
    for comes_with_plan in [false, true] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" if comes_with_plan => called(),
            "planning" => plan(&[("a", &[], &[])]),
            "synthesis" => says("done"),
            _ => called(),
        });
        sim.limits.calls_per_reply = 0;
        let execution = ExecutionConfig { max_iterations: 3, ..ExecutionConfig::default() };
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
        sim.go();
        assert!(sim.is_idle() && ran(&sim).is_empty());
        assert!(sim.contents(ObservationType::ToolCall).is_empty(), "no call was made");
        let item = sim.view()["todoList"][0].clone();
        assert_eq!((&item["status"], &item["reason"]), (&json!("failed"), &json!(AFTER_THREE)));
        let last = sim.prompts.iter().rfind(|request| request.context.item_id.is_some()).unwrap();
        assert_eq!(last.context.iteration, 3);
        let told = format!("{:?}", last.messages);
        assert_eq!(told.matches("Only the first 0 calls of your reply were taken; 1 were not made.").count(), 2);
    }
}

const AFTER_THREE: &str = "max_iterations: not finished after 3 model calls";

#[test]
fn what_depends_on_an_item_that_cannot_begin_is_no_cycle() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "repair" => {
            plan(&[("y", &["x"], &[]), ("x", &["nowhere"], &[]), ("p", &["q"], &[]), ("q", &["p"], &[])])
        }
        _ => says("partly"),
    });
    sim.ask("go").unwrap();
    sim.go();
    let reason = |id: &str| sim.item(id)["reason"].as_str().unwrap().to_owned();
    assert_eq!((reason("x"), reason("y")), ("unknown dependency: nowhere".into(), "dependency failed".into()));
    assert_eq!((reason("p"), reason("q")), ("dependency cycle".into(), "dependency cycle".into()));
}

/// `a` fails while `b` is running.
fn failing(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => fails(pes_engine::domain::model::FailureKind::Refused),
        _ => says("fine"),
    }
}

#[test]
fn an_item_that_came_after_the_failure_that_stopped_the_plan_says_so() {
    let mut sim = Sim::new(failing);
    let execution =
        ExecutionConfig { on_item_failure: OnItemFailure::Stop, max_parallel_items: 2, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.step();
    assert_eq!((&sim.item("a")["status"], &sim.item("b")["status"]), (&json!("failed"), &json!("in_progress")));
    sim.edit_plan("ann", |list| list.push(json!({ "id": "c", "description": "late" }))).unwrap();
    sim.go();
    assert_eq!(sim.item("c")["reason"], "an item failed");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

/// The model is shown the results of the calls that it was told to make, and no more than that.
#[test]
fn an_enforcement_in_the_last_iteration_can_succeed() {
    for (is_done_then, status) in [(true, "completed"), (false, "failed")] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &["write"])]),
            "a.1" if format!("{:?}", request.messages).contains("Call them now") => calls(&[("write", json!({}))]),
            "a.1" => says("I am about to send it"),
            "a.2" if !is_done_then => calls(&[("read", json!({}))]),
            "a.2" => says("sent"),
            _ => says("done"),
        });
        let execution = ExecutionConfig { max_iterations: 1, ..ExecutionConfig::default() };
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
        sim.go();
        let told_last = |request: &ModelRequest| format!("{:?}", request.messages).contains("This is your last reply");
        let of_item = sim.prompts.iter().filter(|request| request.context.item_id.is_some());
        let of_item: Vec<(String, bool)> = of_item.map(|request| (which(request), told_last(request))).collect();
        let (first, second) = ("a.1".to_owned(), "a.2".to_owned());
        assert_eq!(of_item, [(first.clone(), true), (first, false), (second, true)]);
        assert_eq!(sim.item("a")["status"], status);
        let reason = sim.item("a")["reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reason.starts_with("max_iterations"), !is_done_then, "{reason}");
    }
}
