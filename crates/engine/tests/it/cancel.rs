//! Cancel, interrupt, quarantine, crashes, and failing models.

use pes_engine::domain::message::ConversationMessage;
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, SystemEvent, ToolEvent};
use pes_engine::history::fold::Fold;
use pes_engine::step::{Keep, Row, RowKind};
use serde_json::json;

use super::sim::*;

pub fn two_items(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "planning" | "refinement" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "a.1" => calls(&[("write", json!({ "x": "1" })), ("gated", json!({ "x": "2" }))]),
        _ => says("fine"),
    }
}

fn cancel(sim: &mut Sim) -> pes_engine::step::Step {
    sim.cancel(None).unwrap()
}

#[test]
fn a_cancel_with_running_slots_has_two_phases() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.ask("queued").unwrap();
    sim.holds = false;
    let step = cancel(&mut sim);
    assert!(step.is_cancelling && step.wake_at.is_some());
    assert_eq!(sim.run("run_2").status, RunStatus::Cancelled, "queued runs end at once");
    assert_eq!(sim.run("run_1").status, RunStatus::Running);
    assert!(cancel(&mut sim).is_noop);
    let refused = sim.answer(0, |answer| answer.approved = Some(true)).unwrap_err();
    assert_eq!(refused.code.as_str(), "run_cancelled");
    assert!(sim.wake().unwrap().is_cancelling, "the holder is told again");
    sim.holds = true;
    sim.stop_effects().unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    let results = sim.contents(ObservationType::ToolExecution);
    let of = |tool: &str| results.iter().find(|result| result["toolName"] == tool).unwrap().clone();
    assert_eq!((&of("write")["status"], &of("write")["error"]["code"]), (&json!("error"), &json!("unknown")));
    let why = "the run was cancelled while it ran; whether it had its effect is not known";
    assert_eq!(of("write")["error"]["message"], why);
    assert_eq!(of("gated")["status"], "skipped");
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "cancelled");
    assert_eq!((&sim.item("a")["status"], &sim.item("b")["status"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(sim.records.last().unwrap().kind(), ObservationType::RunFinished);
    assert!(sim.is_idle() && sim.suspensions().is_empty());
}

#[test]
fn an_answer_that_comes_after_the_cancel_completes_it_and_starts_nothing() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    cancel(&mut sim);
    sim.step();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert!(sim.tools.ran.lock().unwrap().is_empty());
}

#[test]
fn a_model_call_that_fails_after_the_cancel_completes_it() {
    let mut sim = Sim::new(|_| fails(FailureKind::Retry));
    sim.ask("go").unwrap();
    cancel(&mut sim);
    sim.step();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
}

#[test]
fn the_model_call_of_a_step_ends_with_its_run() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    cancel(&mut sim);
    sim.stop_effects().unwrap();
    let [stopped] = &sim.contents(ObservationType::LlmStreamError)[..] else { panic!("one call was stopped") };
    assert_eq!((&stopped["code"], &stopped["message"]), (&json!("interrupted"), &json!("the run was stopped")));
}

#[test]
fn a_cancel_of_a_suspended_run_is_one_commit() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.go();
    sim.holds = false;
    cancel(&mut sim);
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    let again = sim.cancel(Some("run_1")).unwrap_err();
    assert_eq!(again.code.as_str(), "run_finished");
}

#[test]
fn a_run_cancelled_while_queued_has_only_run_finished() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.ask("queued").unwrap();
    sim.cancel(Some("run_2")).unwrap();
    let of_run: Vec<&str> =
        sim.records.iter().filter(|r| r.run_id.as_str() == "run_2").map(|record| record.kind().as_str()).collect();
    assert_eq!(of_run, ["RUN_FINISHED"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Running);
}

/// The messages of the conversation as they are stored, in order, and as the log gives them.
fn conversations(sim: &Sim) -> (Vec<ConversationMessage>, Vec<String>) {
    let mut rows: Vec<&Row> =
        sim.rows().filter(|row| row.kind == RowKind::Message && row.keep == Keep::Never).collect();
    rows.sort_by_key(|row| row.ord);
    let mut fold = Fold::default();
    for (at, record) in sim.records.iter().enumerate() {
        fold.apply(&Observation::of(record.clone(), "t1".into(), at as i64 + 1)).unwrap();
    }
    let stored = rows.iter().map(|row| serde_json::from_str(&row.body).unwrap()).collect();
    (stored, fold.messages().iter().map(|message| message.message_id.to_string()).collect())
}

/// The cancelled query is no longer open, so no model is shown it, and a copy of the thread has the same conversation.
#[test]
fn what_was_cancelled_while_queued_is_no_part_of_the_conversation() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    sim.ask("the first").unwrap();
    sim.ask("the second").unwrap();
    sim.ask("the third").unwrap();
    sim.cancel(Some("run_2")).unwrap();
    sim.go();
    sim.ask("the fourth").unwrap();
    sim.go();
    let told = format!("{:?}", sim.prompts.last().unwrap().messages);
    assert!(told.contains("the first") && told.contains("the third") && !told.contains("the second"), "{told}");

    let (stored, folded) = conversations(&sim);
    assert_eq!(folded, stored.iter().map(|message| message.message_id.to_string()).collect::<Vec<_>>());
    let head: serde_json::Value = serde_json::from_str(&sim.head).unwrap();
    assert_eq!(head["said"], stored.iter().map(|message| message.content.len()).sum::<usize>());
}

#[test]
fn interrupt_cancels_the_run_keeps_what_was_done_and_starts_first() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    sim.ask("queued").unwrap();
    let step = sim.ask_with("now", OnBusy::Interrupt, RunSettings::default()).unwrap();
    assert!(step.is_cancelling);
    sim.stop_effects().unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert_eq!(sim.run("run_3").status, RunStatus::Running);
    assert_eq!(sim.run("run_2").status, RunStatus::Queued);
}

#[test]
fn interrupting_a_suspended_run_is_one_commit() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.go();
    sim.ask_with("now", OnBusy::Interrupt, RunSettings::default()).unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert_eq!(sim.run("run_2").status, RunStatus::Running);
    sim.reload();
    sim.go();
}

#[test]
fn after_a_crash_what_was_in_progress_goes_on() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    let step = sim.crash();
    assert!(!step.progress, "recovery is no progress");
    assert_eq!(sim.contents(ObservationType::LlmStreamError)[0]["code"], "interrupted");
    let Effect::CallModel { attempt, .. } = &sim.in_flight[0] else { panic!("the model is asked again") };
    assert_eq!(*attempt, 2);
    assert!(sim.step());
    assert_eq!(sim.item("a")["status"], "in_progress");
    sim.crash();
    sim.step();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
}

#[test]
fn a_call_declared_idempotent_is_repeated_under_the_same_key_after_a_crash() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "a.1" => calls(&[("read", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    let Effect::CallTool { call, attempt } = sim.in_flight[0].clone() else { panic!("the tool runs") };
    let late = Event::Tool(ToolEvent::Returned {
        call: call.clone(),
        attempt,
        outcome: Box::new(pes_engine::domain::tool::ToolOutcome {
            result: Ok(json!("late")),
            metadata: None,
            state_patch: None,
            duration_ms: 0,
            executed: None,
        }),
    });
    sim.crash();
    assert_eq!(sim.in_flight, [Effect::CallTool { call, attempt: attempt + 1 }]);
    assert!(sim.apply(late).unwrap().is_noop, "the first attempt's answer is late");
    sim.go();
    assert_eq!(sim.contents(ObservationType::ToolExecution).len(), 1);
}

/// It is repeated after each crash until its last attempt, and then it has failed.
#[test]
fn a_call_that_only_reads_is_not_in_doubt_after_a_crash() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("look", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    for attempt in 2..=10 {
        sim.crash();
        let [Effect::CallTool { attempt: again, .. }] = sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
        assert_eq!((again, sim.suspensions().len()), (attempt, 0));
    }
    sim.crash();
    sim.go();
    let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
    let why = json!({ "code": "failed", "message": "The process stopped during attempt 10, which was the last one." });
    assert_eq!((&ended["error"], sim.is_idle()), (&why, true), "{ended:#}");
}

/// As when the server stopped while it asked a person in the middle of the call.
#[test]
fn a_lost_call_that_only_reads_is_made_again_and_is_not_in_doubt() {
    for (losses, ran, status) in [(1, 2, "success"), (9, 5, "error")] {
        let mut sim = Sim::new(|request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[])]),
            "a.1" => calls(&[("look", json!({}))]),
            _ => says("fine"),
        });
        sim.tools.failures.lock().unwrap().insert("look".into(), losses);
        (sim.tools.retry_after_ms, sim.tools.failure_code) = (Some(0), Some("unknown"));
        sim.ask("go").unwrap();
        sim.go();
        let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
        assert_eq!((&ended["status"], sim.tools.ran.lock().unwrap().len()), (&json!(status), ran), "{ended:#}");
        assert!(sim.is_idle(), "nobody is asked: {:?}", sim.suspensions());
    }
}

#[test]
fn recovery_completes_a_cancel() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    cancel(&mut sim);
    assert_eq!(sim.run("run_1").status, RunStatus::Running);
    sim.crash();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
}

/// The last call of its last iteration returns while the cancel waits.
#[test]
fn a_step_whose_call_returns_during_a_cancel_has_not_failed() {
    let mut sim = Sim::new(two_items);
    let execution = ExecutionConfig { max_iterations: 1, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.step();
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    let [Effect::CallTool { .. }] = sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    cancel(&mut sim);
    sim.step();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    let item = sim.item("a");
    assert_eq!((&item["status"], &item["reason"]), (&json!("cancelled"), &json!("the run was cancelled")));
}

#[test]
fn recovery_leaves_alone_what_runs_under_its_own_epoch() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    assert!(sim.apply(Event::System(SystemEvent::Recovered)).unwrap().is_noop);
}

#[test]
fn quarantine_fails_the_current_and_the_queued_runs_until_the_thread_is_released() {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.ask("queued").unwrap();
    let step = sim.apply(Event::System(SystemEvent::Quarantined { crashes: 3 })).unwrap();
    assert_eq!(step.status, pes_engine::domain::thread::ThreadStatus::Quarantined);
    for run in ["run_1", "run_2"] {
        let run = sim.run(run);
        assert_eq!(run.status, RunStatus::Failed);
        assert_eq!(run.outcome.unwrap().error.unwrap().code.as_str(), "quarantined");
    }
    assert!(sim.is_idle() && sim.suspensions().is_empty() && sim.in_flight.is_empty());
    sim.reload();
    assert_eq!(sim.ask("again").unwrap_err().code.as_str(), "thread_quarantined");
    let step = sim.apply(Event::System(SystemEvent::Released)).unwrap();
    assert_eq!(step.status, pes_engine::domain::thread::ThreadStatus::Idle);
    assert!(sim.apply(Event::System(SystemEvent::Released)).unwrap().is_noop, "once");
    sim.ask("again").unwrap();
    sim.step();
    assert_eq!(which(&sim.prompts[sim.prompts.len() - 1]), "refinement", "unfinished items are offered again");
    assert_eq!(sim.item("a")["status"], "cancelled", "and re-armed only when they are listed as pending");
}

/// A copy of the thread has the same conversation, in the same order.
#[test]
fn a_run_that_fails_in_the_queue_is_recorded_with_its_query_and_its_error_after_the_active_one() {
    let mut sim = Sim::new(two_items);
    sim.ask("the first").unwrap();
    sim.ask("the second").unwrap();
    sim.apply(Event::System(SystemEvent::Quarantined { crashes: 1 })).unwrap();
    let (stored, folded) = conversations(&sim);
    assert_eq!(folded, stored.iter().map(|message| message.message_id.to_string()).collect::<Vec<_>>());
    let why = "The thread crashed once without progress and was stopped.";
    let said: Vec<&str> = stored.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["the first", why, "the second", why]);
    let of_second = sim.records.iter().filter(|record| record.run_id.as_str() == "run_2");
    let kinds: Vec<ObservationType> = of_second.map(|record| record.kind()).collect();
    // Its message was recorded when it was queued, with the active run, and counts from here on.
    let ends = [
        ObservationType::StateUpdate,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];
    assert_eq!(kinds, ends);
    let last = sim.contents(ObservationType::Error).pop().unwrap();
    assert_eq!((&last["code"], &last["message"], &last["fatal"]), (&json!("quarantined"), &json!(why), &json!(true)));
    let ended: Vec<&str> = sim
        .records
        .iter()
        .filter(|record| record.kind() == ObservationType::RunFinished)
        .map(|record| record.run_id.as_str())
        .collect();
    assert_eq!(ended, ["run_1", "run_2"]);
    let head: serde_json::Value = serde_json::from_str(&sim.head).unwrap();
    assert_eq!(head["said"], "the first".len() + "the second".len());
}

#[test]
fn parked_items_give_their_place_away_and_come_first_when_they_are_resumed() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])]),
        "a.1" => calls(&[("gated", json!({ "x": "1" }))]),
        _ => says("fine"),
    });
    let settings = RunSettings { execution: ExecutionConfig::default(), ..RunSettings::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.step();
    sim.step();
    assert_eq!(sim.item("b")["status"], "in_progress", "at one place another item runs while one waits");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(sim.in_flight.len(), 1, "b still has the place");
    sim.step();
    assert!(matches!(sim.in_flight[0], Effect::CallTool { .. }), "a comes before c");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_refused_model_call_is_not_repeated() {
    let mut sim = Sim::new(|_| fails(FailureKind::Refused));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), 1);
    assert_eq!(sim.run("run_1").outcome.unwrap().error.unwrap().code.as_str(), "model_refused");
}

#[test]
fn a_provider_that_says_when_to_come_back_is_obeyed() {
    let mut first = true;
    let mut sim = Sim::new(move |_| {
        if std::mem::take(&mut first) {
            fails(FailureKind::Retry).map_err(|failure| ModelFailure { retry_after_ms: Some(60_000), ..failure })
        } else {
            says(r#"{"answer":"yes","todoList":[]}"#)
        }
    });
    sim.ask("go").unwrap();
    sim.step();
    assert_eq!(sim.steps.last().unwrap().wake_at, Some(sim.now + 60_000));
}
