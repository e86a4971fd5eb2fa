//! Which frames of runs are news to a subscriber.

use serde_json::json;

use super::RunFrames;
use crate::domain::run::{RunResource, RunStatus};
use crate::live::EncodedKind;

fn suspended() -> RunResource {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    serde_json::from_value(json!({
        "runId": "run_1", "threadId": "t", "status": "suspended", "query": "?", "traceId": "x", "model": "m",
        "provider": "p", "createdAt": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage
    }))
    .unwrap()
}

fn published(status: RunStatus, after: i64) -> EncodedKind {
    EncodedKind::Run { run_id: "run_1".into(), status, after }
}

#[test]
fn what_is_published_here_of_commits_that_were_read_from_the_store_is_not_sent() {
    let mut frames = RunFrames::default();
    assert!(!frames.is_outdated(&published(RunStatus::Running, 1)), "nothing was sent of the run");
    frames.make(&[suspended()], 7);
    assert!(frames.is_outdated(&published(RunStatus::Running, 4)), "it was suspended after that");
    assert!(frames.is_outdated(&published(RunStatus::Suspended, 6)), "it was read");
}

#[test]
fn a_run_that_is_suspended_again_is_news() {
    let mut frames = RunFrames::default();
    frames.make(&[suspended()], 7);
    for (status, after) in [(RunStatus::Running, 7), (RunStatus::Suspended, 9)] {
        assert!(!frames.is_outdated(&published(status, after)), "{status:?}");
        frames.know(&"run_1".into(), status, after);
    }
}

#[test]
fn a_run_that_was_read_and_stands_as_before_is_known_as_of_then() {
    let mut frames = RunFrames::default();
    frames.know(&"run_1".into(), RunStatus::Suspended, 3);
    frames.observe(&"run_1".into());
    frames.make(&[], 7);
    assert!(frames.is_outdated(&published(RunStatus::Running, 5)));
}
