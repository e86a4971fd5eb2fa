//! The flow of a run, with the exact order of its records.

use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use pes_engine::event::{Event, ModelEvent};
use serde_json::json;

use super::sim::*;

fn three_items(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"]), ("b", &["a"], &["read"]), ("c", &["b"], &["read"])]),
        "a.1" | "b.1" | "c.1" => calls(&[("read", json!({ "of": which(request) }))]),
        "synthesis" => says("the answer"),
        other => says(format!("result of {other}")),
    }
}

#[test]
fn three_items_with_a_call_each_take_twelve_transitions() {
    let mut sim = Sim::new(three_items);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.steps.len(), 12);
    assert_eq!(sim.prompts.len(), 8);
    let item = [
        "ITEM_STATUS_CHANGE",
        "LLM_STREAM_START",
        "LLM_STREAM_END",
        "TOOL_CALL",
        "TOOL_EXECUTION",
        "LLM_STREAM_START",
        "LLM_STREAM_END",
        "ITEM_STATUS_CHANGE",
    ];
    let planning = ["RUN_STARTED", "LLM_STREAM_START", "LLM_STREAM_END", "INTENT", "TITLE", "PLAN", "PLAN_UPDATE"];
    let ending = ["SYNTHESIS", "LLM_STREAM_START", "LLM_STREAM_END", "SYNTHESIS", "FINAL_RESPONSE", "RUN_FINISHED"];
    let mut expected: Vec<String> = planning.map(String::from).to_vec();
    for id in ["a", "b", "c"] {
        expected.extend(item.map(|kind| format!("{kind}[{id}]")));
    }
    expected.extend(ending.map(String::from));
    assert_eq!(sim.kinds(), expected);
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "the answer");
    let finished = &sim.contents(ObservationType::RunFinished)[0];
    assert_eq!((&finished["status"], &finished["resultStatus"]), (&json!("completed"), &json!("success")));
    assert_eq!((&finished["llmCalls"], &finished["toolCalls"]), (&json!(8), &json!(3)));
    assert_eq!(finished["usage"]["inputTokens"], 80, "usage is summed over the run");
    assert_eq!(sim.item("b")["result"], "result of b.2");
}

#[test]
fn without_the_lease_nothing_starts_and_the_holder_is_asked_to_look() {
    let mut sim = Sim::new(three_items);
    sim.holds = false;
    let step = sim.ask("go").unwrap();
    assert_eq!(step.wake_at, Some(sim.now));
    assert!(sim.in_flight.is_empty() && sim.is_active());
    assert_eq!(sim.kinds(), ["RUN_STARTED"]);
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn an_empty_plan_with_an_answer_is_the_final_response() {
    let mut sim = Sim::new(|_| says(r#"{"title":"T","intent":"i","plan":"","answer":"forty-two","todoList":[]}"#));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "forty-two");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
    assert_eq!(sim.prompts.len(), 1, "there is no synthesis");
}

#[test]
fn a_plan_that_cannot_be_read_is_repaired() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => says("I would rather chat about it"),
        "repair" => plan(&[("a", &[], &[])]),
        "synthesis" => says("done"),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.prompts.iter().filter(|prompt| which(prompt) == "repair").count(), 1);
}

#[test]
fn an_unparsable_plan_ends_as_a_named_failure_and_not_as_success() {
    let mut sim = Sim::new(|_| says("no plan from me"));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), 3, "one call and two repairs");
    let run = sim.run("run_1");
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.outcome.unwrap().error.unwrap();
    assert_eq!(error.code.as_str(), "plan_unreadable");
    assert_eq!(sim.contents(ObservationType::Error)[0]["code"], "plan_unreadable");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "error");
}

#[test]
fn a_planner_refuses_a_task_before_any_work_and_only_then() {
    let mut sim = Sim::new(|_| says(r#"{"title": "No", "refuse": "not mine to do", "todoList": []}"#));
    sim.ask("go").unwrap();
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((run.status, sim.prompts.len()), (RunStatus::Failed, 1));
    let error = run.outcome.unwrap().error.unwrap();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("task_refused", "not mine to do"));
    assert!(sim.contents(ObservationType::Plan).is_empty());
    // Items take precedence over a refusal in the same reply.
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => says(r#"{"refuse": "no", "todoList": [{"id": "a", "description": "a"}]}"#),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_failed_model_call_backs_off_and_its_attempts_have_streams_of_their_own() {
    let mut left = 2;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" if left > 0 => {
            left -= 1;
            fails(FailureKind::Retry)
        }
        "planning" => says(r#"{"answer":"yes","todoList":[]}"#),
        other => panic!("{other}"),
    });
    sim.ask("go").unwrap();
    sim.step();
    let step = sim.steps.last().unwrap();
    assert!(step.wake_at.unwrap() > sim.now && sim.in_flight.is_empty());
    sim.go();
    let errors = sim.contents(ObservationType::LlmStreamError);
    assert_eq!(errors.len(), 2);
    assert_eq!((&errors[0]["retryable"], &errors[0]["httpStatus"]), (&json!(true), &json!(503)));
    let starts = sim.contents(ObservationType::LlmStreamStart);
    let attempts: Vec<i64> = starts.iter().map(|start| start["attempt"].as_i64().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert_ne!(starts[0]["streamId"], starts[1]["streamId"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_step_whose_model_calls_all_fail_fails_and_the_run_is_partial() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &["a"], &[]), ("d", &["c"], &[])]),
        "a.1" => fails(FailureKind::Retry),
        "synthesis" => says("partly"),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["status"], "failed");
    assert_eq!(sim.item("b")["status"], "completed", "independent items go on");
    for dependant in ["c", "d"] {
        assert_eq!(sim.item(dependant)["status"], "cancelled");
        assert_eq!(sim.item(dependant)["reason"], "dependency failed");
    }
    assert!(sim.prompts.iter().filter(|prompt| which(prompt) == "a.1").count() > 6, "the time decides, not a count");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

#[test]
fn a_synthesis_error_gives_a_partial_answer_that_says_what_was_done() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" => fails(FailureKind::Refused),
        _ => says("the weather is fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    let finished = &sim.contents(ObservationType::RunFinished)[0];
    assert_eq!((&finished["status"], &finished["resultStatus"]), (&json!("completed"), &json!("partial")));
    let answer = sim.contents(ObservationType::FinalResponse)[0]["message"]["content"].clone();
    assert!(answer.as_str().unwrap().contains("the weather is fine"));
}

#[test]
fn a_dependency_cycle_and_an_unknown_dependency_end_with_named_reasons() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "repair" => {
            plan(&[("a", &["b"], &[]), ("b", &["a"], &[]), ("c", &["nowhere"], &[]), ("d", &[], &[])])
        }
        "synthesis" => says("partly"),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["reason"], "dependency cycle");
    assert_eq!(sim.item("c")["reason"], "unknown dependency: nowhere");
    assert_eq!(sim.item("d")["status"], "completed");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

#[test]
fn exhausted_iterations_fail_the_item() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "synthesis" => says("partly"),
        _ => calls(&[("read", json!({}))]),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["status"], "failed");
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("max_iterations"));
    assert_eq!(sim.prompts.len(), 1 + 5 + 1);
}

fn settings(change: impl FnOnce(&mut ExecutionConfig)) -> RunSettings {
    let mut settings = RunSettings::default();
    change(&mut settings.execution);
    settings
}

#[test]
fn a_failure_stops_the_plan_when_asked_to() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => fails(FailureKind::Refused),
        _ => says("partly"),
    });
    sim.ask_with("go", OnBusy::Enqueue, settings(|execution| execution.on_item_failure = OnItemFailure::Stop)).unwrap();
    sim.go();
    assert_eq!(sim.item("b")["status"], "cancelled");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

#[test]
fn a_failure_is_planned_around_once_when_asked_to() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "a.1" | "x.1" => fails(FailureKind::Refused),
        "refinement" => plan(&[("x", &[], &[]), ("y", &[], &[])]),
        _ => says("fine"),
    });
    let settings = settings(|execution| execution.on_item_failure = OnItemFailure::Replan);
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    assert_eq!(sim.prompts.iter().filter(|prompt| which(prompt) == "refinement").count(), 1);
    assert_eq!(sim.item("y")["status"], "completed");
    assert_eq!(sim.item("x")["status"], "failed");
}

#[test]
fn parallel_items_run_at_the_same_time_up_to_the_limit() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[]), ("d", &["a", "b"], &[])]),
        _ => says("fine"),
    });
    sim.ask_with("go", OnBusy::Enqueue, settings(|execution| execution.max_parallel_items = 2)).unwrap();
    sim.step();
    assert_eq!(sim.in_flight.len(), 2);
    let second = sim.in_flight[1].clone();
    sim.perform(&second);
    assert_eq!(sim.in_flight.len(), 2, "the place of b goes to c");
    assert_eq!(sim.item("d")["status"], "pending");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn the_next_queued_run_starts_in_the_commit_of_run_finished() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    sim.ask("first").unwrap();
    sim.ask("second").unwrap();
    assert_eq!(sim.run("run_2").status, RunStatus::Queued);
    assert_eq!(sim.contents(ObservationType::StateUpdate)[0]["message"]["content"], "second");
    sim.step();
    let kinds: Vec<&str> = sim.steps.last().unwrap().records.iter().map(|record| record.kind().as_str()).collect();
    let end = ["FINAL_RESPONSE", "RUN_FINISHED", "RUN_STARTED", "LLM_STREAM_START"];
    assert_eq!(kinds[kinds.len() - 4..], end);
    sim.go();
    assert_eq!(sim.run("run_2").status, RunStatus::Completed);
    let last = sim.prompts.last().unwrap();
    let history = format!("{:?}", last.messages);
    assert!(history.contains("first") && history.contains("yes"), "the queued run sees the first one's conversation");
}

#[test]
fn nothing_is_read_of_a_conversation_that_has_only_begun() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    let history = |sim: &Sim| sim.machine.prompt_needs(&sim.machine.running()[0]).history;
    sim.ask("first").unwrap();
    assert_eq!(history(&sim), None);
    sim.go();
    sim.ask("second").unwrap();
    assert!(history(&sim).is_some());
}

#[test]
fn on_busy_reject_refuses_and_a_full_queue_says_so() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    sim.limits.queued_runs = 1;
    sim.ask("first").unwrap();
    let refused = sim.ask_with("second", OnBusy::Reject, RunSettings::default()).unwrap_err();
    assert_eq!(refused.code.as_str(), "thread_busy");
    sim.ask("third").unwrap();
    assert_eq!(sim.ask("fourth").unwrap_err().code.as_str(), "queue_full");
}

#[test]
fn steering_refines_the_plan_as_soon_as_no_item_is_executing() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => {
            assert!(format!("{:?}", request.messages).contains("rather that"));
            plan(&[("b", &[], &[]), ("c", &[], &[])])
        }
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("rather that", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let order: Vec<String> = sim.prompts.iter().map(which).collect();
    assert_eq!(order, ["planning", "a.1", "refinement", "b.1", "c.1", "synthesis"]);
    assert_eq!(sim.contents(ObservationType::RunFinished).len(), 1, "it joined the active run");
}

#[test]
fn a_direct_answer_to_steering_is_a_message_and_the_run_goes_on() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => says(r#"{"answer":"soon","todoList":[]}"#),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("how long?", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let updates = sim.contents(ObservationType::StateUpdate);
    assert_eq!(updates.last().unwrap()["message"]["content"], "soon");
    assert_eq!(sim.item("b")["status"], "completed");
    assert_eq!(sim.contents(ObservationType::RunFinished).len(), 1);
}

#[test]
fn a_reply_with_calls_and_no_list_is_a_plan_of_one_item_whose_first_step_is_those_calls() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => calls(&[("read", json!({ "x": 1 }))]),
        "synthesis" => says("done"),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.tools.ran.lock().unwrap().len(), 1);
    assert_eq!(sim.prompts.len(), 3);
}

#[test]
fn an_empty_step_is_asked_for_again_and_then_fails() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" => says("done"),
        _ => says("  "),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.iter().filter(|prompt| which(prompt) == "a.1").count(), 3);
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("empty_reply"));
}

#[test]
fn late_and_repeated_answers_change_nothing() {
    let mut sim = Sim::new(three_items);
    sim.ask("go").unwrap();
    let (stream, attempt) = sim.stream();
    let reply = || Box::new(three_items_plan());
    sim.apply(Event::Model(ModelEvent::Replied { stream: stream.clone(), attempt, reply: reply() })).unwrap();
    let before = (sim.steps.len(), sim.records.len());
    for attempt in [attempt, attempt + 1] {
        let step =
            sim.apply(Event::Model(ModelEvent::Replied { stream: stream.clone(), attempt, reply: reply() })).unwrap();
        assert!(step.is_noop);
    }
    assert!(sim.wake().unwrap().is_noop);
    assert!(sim.stop_effects().unwrap().is_noop);
    assert_eq!((sim.steps.len(), sim.records.len()), before);
}

fn three_items_plan() -> ModelReply {
    plan(&[("a", &[], &[])]).unwrap()
}
