//! Which frames of runs are news to a subscriber.

use super::RunFrames;
use crate::domain::run::RunStatus;
use crate::live::EncodedKind;

fn published(status: RunStatus, after: i64) -> EncodedKind {
    EncodedKind::Run { run_id: "run_1".into(), status, after }
}

#[test]
fn what_is_published_here_of_commits_that_were_read_from_the_store_is_not_sent() {
    let mut frames = RunFrames::default();
    assert!(!frames.is_outdated(&published(RunStatus::Running, 1)), "nothing was sent of the run");
    frames.know(&"run_1".into(), RunStatus::Suspended, 7);
    assert!(frames.is_outdated(&published(RunStatus::Running, 4)), "it was suspended after that");
    assert!(frames.is_outdated(&published(RunStatus::Suspended, 6)), "it was read");
}

#[test]
fn a_run_that_is_suspended_again_is_news() {
    let mut frames = RunFrames::default();
    frames.know(&"run_1".into(), RunStatus::Suspended, 7);
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
    frames.mark_read(7);
    assert!(frames.is_outdated(&published(RunStatus::Running, 5)));
}
