//! Which frames a run's stream receives.

use serde_json::json;

use super::*;
use crate::domain::run::RunResource;

fn run_frame(run: &str, status: RunStatus) -> Encoded {
    let run = json!({
        "runId": run, "threadId": "t", "status": status, "query": "Count", "traceId": "", "model": "demo",
        "provider": "demo", "createdAt": 1, "llmCalls": 0, "toolCalls": 0,
        "usage": { "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 },
    });
    Encoded::run(&serde_json::from_value::<RunResource>(run).unwrap(), 1)
}

#[test]
fn a_stream_is_suspended_with_its_own_run_only() {
    let own = RunId::from("run_1");
    let decoded = |run, status| RunFrame::decode(&run_frame(run, status), &own);
    assert!(matches!(decoded("run_1", RunStatus::Suspended), Some(RunFrame::Suspended)));
    assert!(decoded("run_2", RunStatus::Suspended).is_none());
    for status in [RunStatus::Queued, RunStatus::Running, RunStatus::Waiting, RunStatus::Completed] {
        assert!(decoded("run_1", status).is_none(), "{status:?}");
    }
}

#[test]
fn the_start_of_a_call_names_its_run_and_its_call() {
    let started = json!({
        "threadId": "t", "runId": "run_2", "callId": "call_1", "toolName": "send", "attempt": 1, "timestamp": 1,
    });
    let frame = Encoded::tool_started(&serde_json::from_value::<ToolStarted>(started).unwrap());
    let Some(RunFrame::CallStarted(started)) = RunFrame::decode(&frame, &RunId::from("run_1")) else {
        panic!("not the start of a call: {frame:?}");
    };
    assert_eq!((started.run_id.as_str(), started.call_id.as_str()), ("run_2", "call_1"));
}

#[test]
fn a_client_that_is_slow_is_told_apart_from_a_log_that_cannot_be_read() {
    let decoded = |frame: Encoded| RunFrame::decode(&frame, &RunId::from("run_1"));
    assert!(matches!(decoded(Encoded::gap(3)), Some(RunFrame::Gap)));
    assert!(matches!(decoded(Encoded::log_unreadable(3)), Some(RunFrame::LogUnreadable)));
}
