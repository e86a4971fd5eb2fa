//! The committer on a scripted batch: what it sends together, in which order, and its answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time;

use super::{Batch, BatchError, Bounds, CommitSlice, Committer, Sending};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::thread::ThreadProfile;
use crate::store::{Commit, Committed, Error, IdempotencyRow, NewThread};

/// What the database does with one call; without a line left, everything is `Done`.
type Call = (Vec<i64>, Sending);
type Reply = Result<Vec<Committed>, BatchError>;

type Damage = fn(String) -> BatchError;

#[derive(Clone)]
pub(super) struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// The pks of each call, and how it was sent.
    calls: Arc<Mutex<Vec<Call>>>,
    /// A call takes one permit.
    gate: Arc<Semaphore>,
    /// A pk that poisons every batch it is in, and how.
    poison: Option<(i64, Damage)>,
}

impl Script {
    pub(super) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            calls: Arc::default(),
            gate: Arc::new(Semaphore::new(1000)),
            poison: None,
        }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    pub(super) fn committer(&self, bounds: Bounds) -> Arc<Committer> {
        Arc::new(Committer::spawn([self.clone()], bounds))
    }
}

impl Batch for Script {
    async fn apply(&mut self, commits: CommitSlice, sending: Sending) -> Reply {
        let pks: Vec<i64> = commits.iter().map(|prepared| prepared.commit.pk.0).collect();
        self.calls.lock().push((pks.clone(), sending));
        self.gate.acquire().await.unwrap().forget();
        if let Some((_, error)) = self.poison.filter(|(poison, _)| pks.contains(poison)) {
            return Err(error("poisoned".into()));
        }
        let scripted = self.replies.lock().pop_front();
        scripted.unwrap_or_else(|| Ok(vec![Committed::Done; pks.len()]))
    }

    async fn reset(&mut self) {}

    async fn close(self) {}
}

pub(super) fn commit(pk: i64) -> Commit {
    let new = NewThread {
        tenant: TenantPk(1),
        thread_id: format!("t{pk}").into(),
        core: "pes".into(),
        created_at: 0,
        created_by: "ann".into(),
    };
    Commit::creating(ThreadPk(pk), new, ThreadProfile::default(), None)
}

fn keyed(pk: i64, key: &str) -> Commit {
    let row = IdempotencyRow {
        tenant: TenantPk(1),
        scope: "POST /threads".into(),
        key: key.into(),
        fingerprint: String::new(),
        status: 201,
        body: String::new(),
        location: None,
        created_at: 0,
    };
    Commit { idempotency: Some(row), ..commit(pk) }
}

/// Queues the commits in order and returns their answers.
async fn all(committer: &Arc<Committer>, commits: Vec<Commit>) -> Vec<super::Result<Committed>> {
    let tasks: Vec<_> = commits
        .into_iter()
        .map(|commit| {
            let committer = committer.clone();
            tokio::spawn(async move { committer.commit(commit).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn what_arrives_together_is_sent_together() {
    let script = Script::new([]);
    let answers = all(&script.committer(Bounds::default()), (1..=50).map(commit).collect()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Committed::Done))));
    assert_eq!(script.calls(), [((1..=50).collect(), Sending::First)]);
}

#[tokio::test]
async fn a_batch_is_bounded_by_count_and_by_bytes() {
    let script = Script::new([]);
    let bounds = Bounds { commits: 2, ..Bounds::default() };
    all(&script.committer(bounds), (1..=5).map(commit).collect()).await;
    assert_eq!(script.calls().iter().map(|(pks, _)| pks.len()).collect::<Vec<_>>(), [2, 2, 1]);

    let script = Script::new([]);
    let heavy = |pk| Commit { head: Some("x".repeat(600)), ..commit(pk) };
    all(&script.committer(Bounds { bytes: 1000, ..Bounds::default() }), vec![heavy(1), heavy(2), commit(3)]).await;
    assert_eq!(script.calls().into_iter().map(|(pks, _)| pks).collect::<Vec<_>>(), [vec![1, 3], vec![2]]);
}

#[tokio::test]
async fn commits_of_one_thread_never_share_a_batch_and_keep_their_order() {
    let script = Script::new([]);
    let mut commits: Vec<Commit> = [7, 8, 7, 7, 9].map(commit).into();
    for (nth, commit) in commits.iter_mut().enumerate() {
        commit.now = nth as i64;
        commit.create = None;
    }
    all(&script.committer(Bounds::default()), commits).await;
    assert_eq!(script.calls().into_iter().map(|(pks, _)| pks).collect::<Vec<_>>(), [vec![7, 8, 9], vec![7], vec![7]]);
}

#[tokio::test]
async fn the_same_new_id_or_the_same_key_never_share_a_batch() {
    let script = Script::new([]);
    let twin = Commit { pk: ThreadPk(2), ..commit(1) };
    all(&script.committer(Bounds::default()), vec![commit(1), twin, keyed(3, "k"), keyed(4, "k")]).await;
    assert_eq!(script.calls().into_iter().map(|(pks, _)| pks).collect::<Vec<_>>(), [vec![1, 3], vec![2, 4]]);
}

#[tokio::test]
async fn a_poisoned_commit_fails_alone() {
    let script = Script { poison: Some((5, BatchError::Data)), ..Script::new([]) };
    let answers = all(&script.committer(Bounds::default()), (1..=8).map(commit).collect()).await;
    for (pk, answer) in (1..).zip(answers) {
        match answer {
            Err(Error::Refused(_)) => assert_eq!(pk, 5),
            other => assert!(matches!(other, Ok(Committed::Done)), "{pk}: {other:?}"),
        }
    }
    let sent: Vec<_> = script.calls().into_iter().map(|(pks, _)| pks).collect();
    let halves = [vec![5, 6, 7, 8], vec![5, 6], vec![5], vec![6], vec![7, 8]];
    assert_eq!(sent[0], (1..=8).collect::<Vec<_>>());
    assert_eq!(sent[1], (1..=4).collect::<Vec<_>>());
    assert_eq!(sent[2..], halves);
}

#[tokio::test]
async fn a_commit_that_meets_damage_fails_alone() {
    let damages: [(Damage, bool); 2] = [(BatchError::Damaged, false), (BatchError::DamagedPart, true)];
    for (damage, is_well) in damages {
        let committer = Script { poison: Some((5, damage)), ..Script::new([]) }.committer(Bounds::default());
        for (pk, answer) in (1..).zip(all(&committer, (1..=8).map(commit).collect()).await) {
            match answer {
                Err(Error::Unusable(_)) => assert_eq!((pk, is_well), (5, false)),
                Err(Error::Unavailable(_)) => assert_eq!((pk, is_well), (5, true)),
                other => assert!(matches!(other, Ok(Committed::Done)) && pk != 5, "{pk}: {other:?}"),
            }
        }
        assert_eq!(committer.health().check().is_ok(), is_well);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_batch_is_sent_again_until_the_database_tells() {
    let lost = || Err(BatchError::Lost("reset by peer".into()));
    let away = Err(BatchError::Unavailable("connection refused".into()));
    let told = Ok(vec![Committed::Done, Committed::Stale]);
    let script = Script::new([lost(), away, lost(), told]);
    let answers = all(&script.committer(Bounds::default()), vec![commit(1), commit(2)]).await;
    assert!(matches!(answers[..], [Ok(Committed::Done), Ok(Committed::Stale)]));
    let sent: Vec<_> = script.calls().into_iter().map(|(pks, sending)| (pks.len(), sending)).collect();
    assert_eq!(sent, [(2, Sending::First), (2, Sending::Again), (2, Sending::Again), (2, Sending::Again)]);
}

#[tokio::test]
async fn what_was_never_sent_is_unavailable_at_once() {
    let script = Script::new([Err(BatchError::Unavailable("connection refused".into()))]);
    let answers = all(&script.committer(Bounds::default()), vec![commit(1)]).await;
    assert!(matches!(answers[..], [Err(Error::Unavailable(_))]));
    assert_eq!(script.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_behind_an_endless_outage_are_told_and_the_sent_one_is_still_settled() {
    let script = Script::new((0..8).map(|_| Err(BatchError::Lost("reset".into()))));
    let committer = script.committer(Bounds { commits: 1, ..Bounds::default() });
    let answers = all(&committer, vec![commit(1), commit(2)]).await;
    assert!(matches!(answers[..], [Ok(Committed::Done), Err(Error::Unavailable(_))]), "{answers:?}");
    assert!(script.calls().iter().all(|(pks, _)| pks == &[1]));
}

#[tokio::test]
async fn a_caller_that_walks_away_cancels_nothing() {
    let script = Script { gate: Arc::new(Semaphore::new(0)), ..Script::new([]) };
    let committer = script.committer(Bounds::default());
    let caller = tokio::spawn({
        let committer = committer.clone();
        async move { committer.commit(commit(1)).await }
    });
    while script.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    script.gate.add_permits(2);
    committer.commit(commit(2)).await.unwrap();
    assert_eq!(script.calls(), [(vec![1], Sending::First), (vec![2], Sending::First)]);
}

#[tokio::test]
async fn closing_finishes_what_was_queued_and_takes_no_more() {
    let script = Script { gate: Arc::new(Semaphore::new(0)), ..Script::new([]) };
    let committer = script.committer(Bounds { commits: 1, ..Bounds::default() });
    let queued = tokio::spawn({
        let committer = committer.clone();
        async move { all(&committer, (1..=3).map(commit).collect()).await }
    });
    while script.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    script.gate.add_permits(3);
    committer.close().await;
    assert!(queued.await.unwrap().iter().all(|answer| matches!(answer, Ok(Committed::Done))));
    assert!(matches!(committer.commit(commit(4)).await, Err(Error::Unavailable(_))));
}

/// Panics on one thread's commits this many times, and this many times at a restart.
struct Broken {
    script: Script,
    on: i64,
    times: Arc<Mutex<u32>>,
    anew: u32,
    resets: Arc<Mutex<u32>>,
}

impl Broken {
    fn new(on: i64, times: u32) -> Self {
        Self { script: Script::new([]), on, times: Arc::new(Mutex::new(times)), anew: 0, resets: Arc::default() }
    }
}

impl Batch for Broken {
    async fn apply(&mut self, commits: CommitSlice, sending: Sending) -> Reply {
        if commits.iter().any(|prepared| prepared.commit.pk.0 == self.on) {
            let mut times = self.times.lock();
            if *times > 0 {
                *times -= 1;
                drop(times);
                panic!("a defect")
            }
        }
        self.script.apply(commits, sending).await
    }

    async fn reset(&mut self) {
        *self.resets.lock() += 1;
        if self.anew > 0 {
            self.anew -= 1;
            panic!("another defect")
        }
    }

    async fn close(self) {}
}

#[tokio::test]
async fn a_worker_that_breaks_goes_on_and_settles_what_it_was_writing() {
    let broken = Broken::new(1, 1);
    let (script, resets) = (broken.script.clone(), broken.resets.clone());
    let committer = Arc::new(Committer::spawn([broken], Bounds::default()));
    let answers = all(&committer, vec![commit(1), commit(2), commit(3)]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Committed::Done))), "{answers:?}");
    assert_eq!(script.calls(), [(vec![1], Sending::Again), (vec![2, 3], Sending::Again)]);
    assert_eq!(*resets.lock(), 1);
}

#[tokio::test]
async fn a_commit_that_always_breaks_its_worker_is_given_up_and_no_other_is() {
    let committer = Arc::new(Committer::spawn([Broken::new(2, u32::MAX)], Bounds::default()));
    let answers = all(&committer, vec![commit(1), commit(2), commit(3)]).await;
    let [Ok(Committed::Done), Err(Error::Damaged(why)), Ok(Committed::Done)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(why.contains("not known"), "{why}");
}

/// After a panic outside a write the batch's outcome is unknown; later batches are written.
#[tokio::test]
async fn a_worker_that_breaks_outside_of_a_write_is_started_again() {
    let broken = Broken { anew: 1, ..Broken::new(1, 1) };
    let (script, resets) = (broken.script.clone(), broken.resets.clone());
    let committer = Arc::new(Committer::spawn([broken], Bounds::default()));
    assert!(matches!(committer.commit(commit(1)).await, Err(Error::Unavailable(_))));
    assert!(matches!(committer.commit(commit(2)).await, Ok(Committed::Done)));
    assert_eq!((script.calls(), *resets.lock()), (vec![(vec![2], Sending::First)], 2));
    committer.health().check().unwrap();
}

#[tokio::test]
async fn a_store_is_not_well_until_as_much_is_written_as_failed() {
    let away = Err(BatchError::Unavailable("the disk is full".into()));
    let script = Script::new([away]);
    let committer = script.committer(Bounds::default());
    let heavy = Commit { head: Some("x".repeat(9_000)), ..commit(1) };
    assert!(matches!(committer.commit(heavy).await, Err(Error::Unavailable(_))));
    committer.commit(commit(2)).await.unwrap();
    assert!(committer.health().required_proof() >= 9_000, "a small commit proves nothing");
    committer.commit(Commit { head: Some("x".repeat(9_001)), ..commit(3) }).await.unwrap();
    assert_eq!(committer.health().required_proof(), 0);
}

/// Other pages of the database may be intact.
#[tokio::test]
async fn a_store_that_was_found_damaged_is_not_well_whatever_is_written_later() {
    let script = Script::new([Err(BatchError::Damaged("a page is broken".into()))]);
    let committer = script.committer(Bounds::default());
    for (pk, is_written) in [(1, false), (2, true)] {
        assert_eq!(committer.commit(commit(pk)).await.is_ok(), is_written);
        assert!(matches!(committer.health().check(), Err(Error::Unusable(why)) if why == "a page is broken"));
    }
}

/// The first attempt may have been stored.
#[tokio::test]
async fn a_commit_whose_repetition_finds_the_store_damaged_is_not_called_unstored() {
    let script =
        Script::new([Err(BatchError::Lost("broken pipe".into())), Err(BatchError::Damaged("a page is broken".into()))]);
    let committer = script.committer(Bounds::default());
    let outcome = committer.commit(commit(1)).await;
    assert!(
        matches!(&outcome, Err(Error::Damaged(why)) if why == "a page is broken; whether it is stored is not known"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_store_is_not_well_while_a_worker_is_being_started_again() {
    let broken = Broken::new(1, 1);
    broken.script.gate.forget_permits(1_000);
    let (gate, resets) = (broken.script.gate.clone(), broken.resets.clone());
    let committer = Arc::new(Committer::spawn([broken], Bounds::default()));
    let committing = tokio::spawn({
        let committer = committer.clone();
        async move { committer.commit(commit(1)).await }
    });
    while *resets.lock() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(committer.health().check().is_err());
    gate.add_permits(1);
    committing.await.unwrap().unwrap();
    committer.health().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_is_not_well_while_a_batch_has_no_outcome_for_five_seconds() {
    let script = Script::new([]);
    script.gate.forget_permits(1_000);
    let committer = script.committer(Bounds::default());
    let committing = tokio::spawn({
        let committer = committer.clone();
        async move { committer.commit(commit(1)).await }
    });
    while script.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    time::advance(Duration::from_millis(4_999)).await;
    committer.health().check().unwrap();
    time::advance(Duration::from_millis(1)).await;
    let Err(Error::Unavailable(why)) = committer.health().check() else { panic!("the store is well") };
    assert_eq!(why, "commits that were sent 5 s ago have no outcome yet");
    script.gate.add_permits(1);
    committing.await.unwrap().unwrap();
    committer.health().check().unwrap();
}
