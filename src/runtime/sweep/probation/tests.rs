//! Suspects are reloaded in halves, and cleared only by what they have shown.

use super::*;
use crate::store::Crashes;

fn found(pk: i64, times: i64, attributed: i64, among: i64) -> Claimable {
    Claimable { pk: ThreadPk(pk), crashes: Crashes { times, attributed, among } }
}

fn keys(pks: &[ThreadPk]) -> Vec<i64> {
    pks.iter().map(|pk| pk.0).collect()
}

#[tokio::test(start_paused = true)]
async fn what_died_together_twice_is_taken_up_in_halves_and_then_in_ever_more() {
    let probation = Probation::default();
    let all = || (1..=8).map(|pk| found(pk, 2, 0, 8)).chain([found(9, 1, 0, 8)]).collect::<Vec<_>>();
    let first = probation.admit(all(), |_| true);
    assert_eq!(keys(&first.pks), [9, 1, 2, 3, 4], "once is no reason to wait");
    assert_eq!((first.cleared.len(), probation.waiting()), (0, 4));
    (1..=4).for_each(|pk| probation.reloaded(ThreadPk(pk)));
    let rest = || (5..=8).map(|pk| found(pk, 2, 0, 8)).collect::<Vec<_>>();
    assert!(probation.admit(rest(), |_| true).pks.is_empty(), "the first are still watched");
    tokio::time::advance(WATCH_DURATION).await;
    let next = probation.admit(rest(), |_| true);
    assert_eq!((keys(&next.pks), next.cleared.len()), (vec![5, 6, 7, 8], 4));
}

#[tokio::test(start_paused = true)]
async fn what_is_pointed_at_comes_last_and_alone() {
    let probation = Probation::default();
    let all = || vec![found(1, 4, 1, 1), found(2, 3, 0, 2)];
    assert_eq!(keys(&probation.admit(all(), |_| true).pks), [2]);
    probation.reloaded(ThreadPk(2));
    assert_eq!(keys(&probation.admit(vec![found(1, 4, 1, 1)], |_| false).pks), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_reloaded_is_not_cleared_and_is_tried_again() {
    let probation = Probation::default();
    let all = || (1..=4).map(|pk| found(pk, 2, 0, 4)).collect::<Vec<_>>();
    assert_eq!(keys(&probation.admit(all(), |_| false).pks), [1, 2]);
    probation.not_reloaded(ThreadPk(1));
    let next = probation.admit(all(), |_| false);
    assert_eq!((keys(&next.pks), next.cleared.len()), (vec![1], 0), "2 is still being reloaded");
    probation.not_reloaded(ThreadPk(1));
    probation.reloaded(ThreadPk(2));
    let next = probation.admit(all(), |_| false);
    assert_eq!((keys(&next.cleared), keys(&next.pks)), (vec![2], vec![1, 2, 3, 4]), "twice as many as before");
}

/// The first is still being read, of the second nothing was heard.
#[tokio::test(start_paused = true)]
async fn what_takes_long_to_reload_is_cleared_after_the_watch_if_it_is_in_memory() {
    let probation = Probation::default();
    let all = || (1..=4).map(|pk| found(pk, 2, 0, 4)).collect::<Vec<_>>();
    assert_eq!(keys(&probation.admit(all(), |_| true).pks), [1, 2]);
    tokio::time::advance(WATCH_DURATION).await;
    let next = probation.admit(Vec::new(), |pk| pk == ThreadPk(1));
    assert_eq!(keys(&next.cleared), [1]);
}
