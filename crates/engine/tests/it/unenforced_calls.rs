//! The model is not told again to make a required call that may have had its effect: a person skipped it, its outcome
//! is unknown, its result could not be stored, its run was cancelled while it ran, or the caller's own program had it
//! and did not say how it ended.

use pes_engine::domain::hitl::{ExpiryPolicy, InDoubtAction, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::domain::task::PeerFailureKind;
use pes_engine::domain::tool::{ToolError, ToolOutcome};
use pes_engine::effect::Effect;
use pes_engine::event::{CancelEvent, Event, PersonEvent, SystemEvent, ToolEvent};
use serde_json::json;

use super::delegate::{AT_ONCE, NEVER, sending_fails, sent_again};
use super::peers::{End, Way};
use super::sim::*;
use super::suspend::ran;

/// A run whose only item must call this tool; its model calls it whenever it is told to, and otherwise says that it is
/// done.
fn must_call(tool: &'static str) -> Sim {
    let list = move || json!([{ "id": "a", "description": "do a", "status": "pending", "requiredTools": [tool] }]);
    let mut asked = 0;
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[tool])]),
        "refinement" => says(json!({ "title": "t", "intent": "i", "plan": "p", "todoList": list() }).to_string()),
        "synthesis" => says("the answer"),
        _ => {
            asked += 1;
            let is_told = format!("{:?}", request.messages.last()).contains("Call them now");
            if asked == 1 || is_told { calls(&[(tool, json!({ "x": "1" }))]) } else { says("that is all") }
        }
    })
}

fn until_it_runs(sim: &mut Sim) {
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step(), "no tool runs");
    }
}

/// The call's attempt fails with this error.
fn fails_with(sim: &mut Sim, error: ToolError) {
    until_it_runs(sim);
    let [Effect::CallTool { call, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (call, attempt) = (call.clone(), *attempt);
    let outcome = Box::new(ToolOutcome::failed(error));
    sim.apply(Event::Tool(ToolEvent::Returned { call, attempt, outcome })).unwrap();
}

fn is_ordered_again(sim: &Sim) -> bool {
    sim.prompts.iter().any(|prompt| format!("{:?}", prompt.messages).contains("Call them now"))
}

/// The call may have been sent when the process died.
fn in_doubt(execution: ExecutionConfig) -> Sim {
    let mut sim = must_call("write");
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    until_it_runs(&mut sim);
    sim.crash();
    assert_eq!(sim.suspensions().len(), 1);
    sim
}

fn ends_without_it(sim: &mut Sim, code: &str) {
    sim.go();
    assert_eq!((is_ordered_again(sim), ran(sim).len()), (false, 0));
    let item = sim.item("a");
    let reason = item["reason"].as_str().unwrap();
    assert!(reason.starts_with("required_tools: ") && reason.contains(code), "{reason}");
    assert!(sim.is_idle());
}

#[test]
fn what_a_person_skipped_is_not_ordered_again() {
    let mut sim = in_doubt(ExecutionConfig::default());
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Skip)).unwrap();
    ends_without_it(&mut sim, "unknown");
    let why = "required_tools: required tools did not succeed: write was called and failed (unknown: whether it had its \
               effect is not known, and a person skipped it)";
    assert_eq!(sim.item("a")["reason"], why);
}

#[test]
fn what_nobody_answered_for_is_not_ordered_again() {
    let mut sim = in_doubt(ExecutionConfig {
        suspension_timeout_ms: Some(5_000),
        suspension_expiry: ExpiryPolicy::Deny,
        ..ExecutionConfig::default()
    });
    sim.now += 5_000;
    sim.wake().unwrap();
    ends_without_it(&mut sim, "unknown");
}

/// The next run starts the item again; the call that ran when the first run was cancelled may have had its effect.
#[test]
fn what_ran_when_its_run_was_cancelled_is_not_ordered_by_the_next_one() {
    for (tool, is_safe) in [("write", false), ("read", true)] {
        let mut sim = must_call(tool);
        sim.ask("go").unwrap();
        until_it_runs(&mut sim);
        sim.cancel(None).unwrap();
        sim.stop_effects().unwrap();
        assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
        sim.ask("try it again").unwrap();
        if is_safe {
            sim.go();
            assert_eq!((is_ordered_again(&sim), ran(&sim).len()), (true, 1), "what only reads may be called again");
        } else {
            ends_without_it(&mut sim, "unknown");
        }
    }
}

/// The caller's program may have carried the call out by then, though it has not answered.
#[test]
fn what_the_caller_had_when_it_was_cancelled_skipped_or_expired_is_not_ordered_again() {
    let cancel = Event::Cancel(CancelEvent::Asked { run: None, by: "ann".into() });
    let skip = Event::Person(PersonEvent::ItemSkipped { item: "a".into(), by: "ann".into() });
    let expire = Event::System(SystemEvent::Woke);
    for (ends, waits_ms) in [(cancel, 0), (skip, 0), (expire, 5_000)] {
        let mut sim = must_call("client");
        sim.tools.has_client = true;
        let execution = ExecutionConfig {
            suspension_timeout_ms: Some(5_000),
            suspension_expiry: ExpiryPolicy::Fail,
            ..ExecutionConfig::default()
        };
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
        sim.go();
        let kinds: Vec<SuspensionKind> = sim.suspensions().iter().map(|open| open.kind).collect();
        assert_eq!(kinds, [SuspensionKind::ClientTool]);
        sim.now += waits_ms;
        sim.apply(ends.clone()).unwrap();
        sim.go();
        let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call, {ends:?}") };
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("unknown")), "{ends:?}");
        assert!(sim.is_idle(), "{ends:?}");
        sim.ask("try it again").unwrap();
        ends_without_it(&mut sim, "unknown");
    }
}

/// A call that a person was asked about was never handed to the caller.
#[test]
fn what_only_waited_for_an_approval_may_be_ordered_again() {
    let mut sim = must_call("gated");
    sim.ask("go").unwrap();
    sim.go();
    sim.cancel(None).unwrap();
    let ended = sim.contents(ObservationType::ToolExecution).remove(0);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("skipped"), &json!("skipped")));
    sim.ask("try it again").unwrap();
    sim.go();
    assert!(is_ordered_again(&sim));
}

/// The tool ran to its end, and its output could not be stored as its result.
#[test]
fn what_ran_and_brought_nothing_that_could_be_kept_is_not_ordered_again() {
    for code in ["output_too_large", "output_too_deep", "invalid_output", "panicked"] {
        let mut sim = must_call("write");
        sim.ask("go").unwrap();
        fails_with(&mut sim, ToolError::new(code, "it ran"));
        ends_without_it(&mut sim, code);
    }
}

/// The tool ran to its end, and its result is lost with the change of the application state that came with it.
#[test]
fn what_ran_and_would_have_made_the_state_too_large_is_not_ordered_again() {
    let mut sim = must_call("write");
    sim.limits.state_bytes = 10;
    sim.ask("go").unwrap();
    until_it_runs(&mut sim);
    let [Effect::CallTool { call, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (call, attempt) = (call.clone(), *attempt);
    let outcome = Box::new(ToolOutcome {
        result: Ok(json!("written")),
        metadata: None,
        state_patch: Some(json!({ "k": "x".repeat(20) })),
        duration_ms: 0,
        executed: None,
    });
    sim.apply(Event::Tool(ToolEvent::Returned { call, attempt, outcome })).unwrap();
    ends_without_it(&mut sim, "state_too_large");
}

/// A call that is declared idempotent may be made again whatever became of it, also where its tool reaches outside.
#[test]
fn what_is_idempotent_is_ordered_again_although_its_end_is_not_known() {
    for (tool, ordered) in [("fetch", true), ("write", false)] {
        let mut sim = must_call(tool);
        sim.ask("go").unwrap();
        fails_with(&mut sim, ToolError::new("timeout", "slow"));
        sim.go();
        assert_eq!((is_ordered_again(&sim), ran(&sim).len()), (ordered, usize::from(ordered)), "{tool}");
    }
}

/// A way in which an attempt may have had its effect, and what is then said of it.
type Loss = (&'static str, fn(&mut Sim), &'static str);

const BROKEN: &str = "The connection broke.";
const STOPPED: &str = "The process stopped during the call.";

fn breaks(sim: &mut Sim) {
    fails_with(sim, ToolError::lost(BROKEN.to_owned()));
}

fn crashes(sim: &mut Sim) {
    until_it_runs(sim);
    sim.crash();
}

fn is_retried_by_a_person(sim: &mut Sim) {
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
}

/// The first attempt may have had its effect; the next one, under the same key, could not be sent or was refused.
#[test]
fn what_was_lost_before_its_last_attempt_failed_is_in_doubt_and_not_ordered_again() {
    let losses: [Loss; 4] = [
        ("fetch", breaks, BROKEN),
        ("fetch", crashes, STOPPED),
        (
            "write",
            |sim| {
                breaks(sim);
                is_retried_by_a_person(sim);
            },
            BROKEN,
        ),
        (
            "write",
            |sim| {
                crashes(sim);
                is_retried_by_a_person(sim);
            },
            STOPPED,
        ),
    ];
    for (tool, is_lost, why) in losses {
        for code in ["unavailable", "failed"] {
            let mut sim = must_call(tool);
            sim.ask("go").unwrap();
            is_lost(&mut sim);
            fails_with(&mut sim, ToolError::new(code, "It is away."));
            let asked = sim.suspensions();
            let message = format!("{why} The last attempt failed: It is away. `{tool}` may have had its effect.");
            assert_eq!((asked[0].kind, &asked[0].message), (SuspensionKind::InDoubt, &message));
            assert!(sim.contents(ObservationType::ToolExecution).is_empty(), "it has not ended");
            sim.answer(0, |answer| answer.action = Some(InDoubtAction::Skip)).unwrap();
            ends_without_it(&mut sim, "unknown");
        }
    }
}

#[test]
fn what_was_lost_before_its_run_was_cancelled_is_not_ordered_by_the_next_one() {
    let mut sim = must_call("fetch");
    sim.ask("go").unwrap();
    breaks(&mut sim);
    until_it_runs(&mut sim);
    sim.cancel(None).unwrap();
    fails_with(&mut sim, ToolError::new("failed", "It is away."));
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
    let error = json!({ "code": "unknown", "message": format!("{BROKEN} The last attempt failed: It is away.") });
    assert_eq!(ended["error"], error);
    sim.ask("try it again").unwrap();
    ends_without_it(&mut sim, "unknown");
}

/// What only reads has no effect that could happen twice.
#[test]
fn what_only_reads_fails_as_its_last_attempt_did() {
    let losses: [fn(&mut Sim); 2] = [breaks, crashes];
    for is_lost in losses {
        let mut sim = must_call("read");
        sim.ask("go").unwrap();
        is_lost(&mut sim);
        fails_with(&mut sim, ToolError::new("failed", "It is away."));
        let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
        assert_eq!(ended["error"], json!({ "code": "failed", "message": "It is away." }));
        sim.go();
        assert!(is_ordered_again(&sim));
    }
}

/// Its tool alone knows that a call reads: a GET is external, because its URL may carry data.
#[test]
fn what_its_tool_says_had_no_effect_is_in_no_doubt() {
    let mut sim = must_call("fetch");
    sim.ask("go").unwrap();
    crashes(&mut sim);
    fails_with(&mut sim, ToolError::new("failed", "It is away.").without_effect());
    let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
    assert_eq!(ended["error"], json!({ "code": "failed", "message": "It is away." }));
    sim.go();
    assert!(is_ordered_again(&sim));
}

/// The agent may have done it by then.
#[test]
fn what_an_agent_had_when_it_was_given_up_is_not_ordered_again() {
    let forgotten = Way { end: End::Forgotten, ..AT_ONCE };
    let removed = Way { end: End::Removed, slow: 1, ..AT_ONCE };
    for (way, code) in [(NEVER, "timeout"), (forgotten, "peer_lost"), (removed, "peer_removed")] {
        let mut sim = must_call("peer");
        sim.peers.ways = [("1".to_owned(), way)].into();
        let execution = ExecutionConfig { delegation_timeout_ms: Some(60_000), ..ExecutionConfig::default() };
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
        ends_without_it(&mut sim, code);
        assert_eq!(sim.peers.tasks.len(), 1, "{code}");
    }
}

/// The agent may have the first message; sending it again, as a person wanted, failed.
#[test]
fn what_an_agent_may_have_had_before_it_could_not_be_sent_again_is_not_ordered_again() {
    for (kind, tries) in [(PeerFailureKind::Unreachable, 6), (PeerFailureKind::Refused, 1)] {
        let mut sim = must_call("peer");
        sim.peers.ways = [("1".to_owned(), AT_ONCE)].into();
        sim.ask("go").unwrap();
        sent_again(&mut sim);
        for _ in 0..tries {
            sending_fails(&mut sim, kind);
        }
        let is_told = sim.in_flight.iter().any(|effect| matches!(effect, Effect::CancelPeer { .. }));
        assert!(is_told, "{:?}", sim.in_flight);
        ends_without_it(&mut sim, "unknown");
        assert_eq!(sim.peers.tasks.len(), 0, "{kind:?}");
    }
}
