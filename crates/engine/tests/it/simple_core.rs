//! Cores that are one function, under the driver that crashes: their decisions, and that all else is as with PES.

use std::sync::Arc;

use pes_engine::domain::hitl::{InDoubtAction, SuspensionKind};
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::payload;
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, RunSettings};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::parse::CallDraft;
use pes_engine::pes::Pes;
use pes_engine::simple::{Next, SimpleCore, Transcript, Turn};
use serde_json::{Value, json};

use super::sim::*;

#[path = "../../../../examples/simple_core/careful.rs"]
mod careful;

use careful::Careful;

/// A core from a closure.
struct Says<F>(F);

impl<F: Fn(&Transcript<'_>) -> Next + Send + Sync + 'static> SimpleCore for Says<F> {
    fn name(&self) -> &str {
        "says"
    }
    fn next(&self, transcript: &Transcript<'_>) -> Next {
        (self.0)(transcript)
    }
}

fn sim(
    next: impl Fn(&Transcript<'_>) -> Next + Send + Sync + 'static,
    script: impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> + 'static,
) -> Sim {
    Sim::of(Arc::new(Pes::simple(Says(next))), script)
}

/// First these calls, then the model, whose reply is the answer.
fn calls_first(made: &'static [&'static str]) -> impl Fn(&Transcript<'_>) -> Next + Send + Sync + 'static {
    move |transcript| match &transcript.reply {
        Some(reply) => Next::Answer(reply.text.to_owned()),
        None if transcript.turns.is_empty() => {
            Next::CallTools(made.iter().map(|tool| CallDraft::new(*tool, json!({ "x": tool }))).collect())
        }
        None => Next::ask(),
    }
}

fn answering(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    says(format!("the answer to {}", request.context.query))
}

fn answers(sim: &Sim) -> Vec<String> {
    let finals = sim.contents(ObservationType::FinalResponse);
    finals.iter().map(|content| content["message"]["content"].as_str().unwrap().to_owned()).collect()
}

/// The tools that ran, and whether each call succeeded.
fn came_to(sim: &Sim) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let ends = sim.contents(ObservationType::ToolExecution);
    ends.iter().map(|end| (word(&end["toolName"]), word(&end["status"]))).collect()
}

/// The example core: makes the model's calls, then drafts, then checks.
fn careful() -> Sim {
    Sim::of(Arc::new(Pes::simple(Careful)), |request| match request.context.iteration {
        2 => calls(&[("read", json!({ "n": 1 })), ("sum", json!({ "n": 2 }))]),
        3 => says("a draft"),
        4 => says("the answer"),
        other => panic!("it asked in step {other}"),
    })
}

#[test]
fn the_function_says_what_follows_and_all_of_it_is_recorded() {
    let mut sim = careful();
    sim.ask("go").unwrap();
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((run.status, run.outcome.unwrap().status), (RunStatus::Completed, ResultStatus::Success));
    assert_eq!((run.counters.llm_calls, run.counters.tool_calls), (3, 3));
    assert_eq!(answers(&sim), ["the answer"]);
    let mut kinds = sim.kinds();
    kinds.iter_mut().for_each(|kind| *kind = kind.replace("[run_1]", ""));
    let model = ["LLM_STREAM_START", "LLM_STREAM_END"];
    let expected = [
        &["RUN_STARTED", "ITEM_STATUS_CHANGE", "TOOL_CALL", "TOOL_EXECUTION"][..],
        &model,
        &["TOOL_CALL", "TOOL_EXECUTION", "TOOL_EXECUTION"],
        &model,
        &model,
        &["ITEM_STATUS_CHANGE", "FINAL_RESPONSE", "RUN_FINISHED"],
    ];
    assert_eq!(kinds, expected.concat());
    let own = &sim.contents(ObservationType::ToolCall)[0];
    assert!(own["streamId"].is_null(), "no model asked for it: {own}");
}

/// The model sees the calls made before it, and their results.
#[test]
fn the_model_is_told_what_happened_and_what_the_core_says() {
    let mut sim = careful();
    sim.ask("go").unwrap();
    sim.go();
    let told: Vec<&str> = sim.prompts[2]
        .messages
        .iter()
        .filter_map(|message| match message {
            PromptMessage::User { content } | PromptMessage::Assistant { content, .. } => Some(content.as_str()),
            PromptMessage::Tool { name, .. } => Some(name.as_str()),
            PromptMessage::System { .. } => None,
        })
        .collect();
    assert_eq!(told[..7], ["go", "", "current_time", "", "read", "sum", "a draft"]);
    assert!(told[7].starts_with("Check this answer"), "{told:?}");
}

#[test]
fn a_crash_after_any_commit_changes_no_decision() {
    let mut whole = careful();
    whole.ask("go").unwrap();
    whole.go();
    let commits = whole.steps.len();
    for after in 0..commits {
        let mut sim = careful();
        sim.ask("go").unwrap();
        for _ in 0..after {
            sim.step();
        }
        sim.crash();
        sim.go();
        assert_eq!(answers(&sim), ["the answer"], "crash after {after}");
        assert_eq!(came_to(&sim), came_to(&whole), "crash after {after}");
        sim.check_starts();
    }
}

#[test]
fn a_call_that_may_have_had_its_effect_waits_for_a_person() {
    let mut sim = sim(calls_first(&["write"]), answering);
    sim.ask("go").unwrap();
    assert_eq!(sim.in_flight.len(), 1);
    sim.crash();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::InDoubt);
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
    sim.go();
    assert_eq!(answers(&sim), ["the answer to go"]);
    sim.check_starts();
}

#[test]
fn a_gated_call_waits_for_a_person_wherever_the_process_dies() {
    for approved in [true, false] {
        for crashes in [true, false] {
            let mut sim = sim(calls_first(&["gated", "read"]), answering);
            sim.ask("go").unwrap();
            sim.go();
            assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
            assert!(!sim.is_active() && came_to(&sim).len() == 1, "{:?}", came_to(&sim));
            if crashes {
                sim.crash();
            }
            sim.answer(0, |answer| answer.approved = Some(approved)).unwrap();
            if crashes {
                sim.crash();
            }
            if approved && crashes {
                // Whether it ran before the crash is unknown.
                sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
            }
            sim.go();
            let gated = if approved { "success" } else { "error" };
            assert_eq!(came_to(&sim)[1], ("gated".to_owned(), gated.to_owned()));
            assert_eq!(answers(&sim), ["the answer to go"]);
        }
    }
}

#[test]
fn the_policy_judges_the_cores_own_calls() {
    let mut sim = sim(calls_first(&["denied", "nonsense"]), answering);
    sim.ask("go").unwrap();
    sim.go();
    assert!(sim.tools.ran.lock().unwrap().is_empty());
    assert_eq!(came_to(&sim).iter().filter(|(_, status)| status == "error").count(), 2);
    assert_eq!(answers(&sim), ["the answer to go"]);
}

#[test]
fn whoever_holds_no_lease_starts_nothing() {
    let mut sim = careful();
    sim.holds = false;
    sim.ask("go").unwrap();
    assert!(sim.in_flight.is_empty() && sim.steps[0].wake_at.is_some());
    assert!(sim.tools.ran.lock().unwrap().is_empty());
    sim.go();
    assert_eq!(answers(&sim), ["the answer"]);
}

#[test]
fn a_cancel_has_two_phases_and_the_next_run_follows() {
    let mut sim = sim(calls_first(&["write"]), answering);
    sim.ask("one").unwrap();
    sim.ask("two").unwrap();
    let step = sim.cancel(Some("run_1")).unwrap();
    assert!(step.is_cancelling && sim.run("run_1").status == RunStatus::Running);
    sim.stop_effects().unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    sim.go();
    assert_eq!(answers(&sim), ["the answer to two"]);
}

#[test]
fn a_pause_holds_back_what_follows() {
    let mut sim = sim(calls_first(&["write"]), answering);
    sim.ask("go").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    while !sim.in_flight.is_empty() {
        sim.step();
    }
    assert!(sim.prompts.is_empty() && sim.run("run_1").status == RunStatus::Suspended);
    sim.crash();
    assert!(sim.wake().unwrap().is_noop);
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(answers(&sim), ["the answer to go"]);
}

#[test]
fn a_model_that_fails_is_asked_again_after_a_pause_and_then_the_run_fails() {
    let mut failures = 2;
    let mut sim_of = sim(calls_first(&["read"]), move |request| match failures {
        0 => answering(request),
        _ => {
            failures -= 1;
            fails(FailureKind::Retry)
        }
    });
    sim_of.ask("go").unwrap();
    sim_of.go();
    assert_eq!((answers(&sim_of), sim_of.prompts.len()), (vec!["the answer to go".to_owned()], 3));
    assert_eq!(sim_of.contents(ObservationType::LlmStreamError).len(), 2);

    let mut sim = sim(calls_first(&["read"]), |_| fails(FailureKind::Refused));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Failed);
}

#[test]
fn a_budget_ends_the_run_as_any() {
    let mut sim = sim(|_| Next::ask(), answering);
    let budget = Some(Budget { max_llm_calls: Some(2), ..Budget::default() });
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { budget, ..RunSettings::default() }).unwrap();
    sim.go();
    let outcome = sim.run("run_1").outcome.unwrap();
    assert_eq!((outcome.status, sim.prompts.len()), (ResultStatus::Partial, 2));
    assert_eq!(outcome.error.unwrap().code.as_str(), "budget_exceeded");
}

/// A call answered at once needs no effect, so only the limit of steps ends this.
#[test]
fn a_core_that_never_ends_is_ended() {
    for tool in ["sum", "denied", "read"] {
        let mut sim = sim(move |_| Next::CallTools(vec![CallDraft::new(tool, json!({}))]), answering);
        let execution = ExecutionConfig { max_iterations: 7, ..ExecutionConfig::default() };
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
        sim.go();
        assert_eq!((sim.run("run_1").status, came_to(&sim).len()), (RunStatus::Failed, 7), "{tool}");
    }
}

#[test]
fn a_core_that_fails_says_why() {
    type Decide = fn(&Transcript<'_>) -> Next;
    let cases: [(Decide, &str); 3] = [
        (|_| Next::Fail("not for us".into()), "not for us"),
        (|_| Next::CallTools(Vec::new()), "the core asked for no call"),
        (|_| Next::Answer(" ".into()), "the core answered nothing"),
    ];
    for (next, why) in cases {
        let mut sim = sim(next, answering);
        sim.ask("one").unwrap();
        sim.go();
        let run = sim.run("run_1");
        let error = run.outcome.unwrap().error.unwrap();
        assert_eq!((run.status, error.code.as_str(), error.message.as_str()), (RunStatus::Failed, "task_refused", why));
        assert!(sim.is_idle() && sim.prompts.is_empty());
    }
}

/// It ends a run in the decision that starts it; the next run starts in the same decision.
#[test]
fn runs_that_need_nothing_follow_each_other() {
    let next = |transcript: &Transcript<'_>| match &*transcript.run.query {
        "long" if transcript.turns.is_empty() => Next::CallTools(vec![CallDraft::new("read", json!({}))]),
        query => Next::Answer(format!("{query}!")),
    };
    let mut sim = sim(next, answering);
    for query in ["long", "two", "three", "long", "five"] {
        sim.ask(query).unwrap();
    }
    sim.go();
    assert_eq!(answers(&sim), ["long!", "two!", "three!", "long!", "five!"]);
    assert!(sim.prompts.is_empty(), "it is asked when its calls have ended, not a model");
}

/// Large texts in turns are references, as everywhere in the store; the model is shown the whole text.
#[test]
fn a_long_reply_is_shown_whole_where_it_is_answered_and_an_empty_one_is_not_shown() {
    let is_long = |turn: &Turn<'_>| match turn {
        Turn::Model { text, .. } => payload::reference(text).is_some(),
        Turn::Text(_) => false,
    };
    let next = move |transcript: &Transcript<'_>| match &transcript.reply {
        None => Next::ask(),
        Some(reply) if reply.text.trim().is_empty() => Next::Fail("it was shown".into()),
        Some(reply) if reply.text.len() > payload::INLINE_LIMIT => Next::ask(),
        Some(reply) if transcript.turns.iter().any(is_long) => Next::Answer(reply.text.to_owned()),
        Some(reply) => Next::Fail(reply.text.to_owned()),
    };
    let long = "x".repeat(2 * payload::INLINE_LIMIT);
    let mut said = vec![says(""), says(long.clone()), says("the answer")].into_iter();
    let mut sim = sim(next, move |_| said.next().expect("it is asked three times"));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(answers(&sim), ["the answer"]);
    assert!(format!("{:?}", sim.prompts[2].messages).contains(&long));
}
