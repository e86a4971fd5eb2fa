//! Counts of open work for metrics.

use pes::domain::ids::ThreadPk;
use pes::domain::observation::{ObservationType, Record};
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, RowKind};
use pes::store::Commit;

use super::bed::{Bed, record, row};

super::on_every_store!(a_running_thread_is_as_old_as_its_last_commit);

/// A step of the thread: no message, and no change of its profile.
async fn step(bed: &Bed, pk: ThreadPk, status: ThreadStatus, now: i64) {
    let rows = vec![row(RowKind::Turn, &format!("turn_{now}"), now, Keep::Always)];
    let records = [ObservationType::Intent, ObservationType::Title]
        .map(|kind| Record { timestamp: now, ..record(&format!("obs_{kind:?}_{now}"), kind, "run") });
    bed.done(Commit { now, status, rows, records: records.to_vec(), ..bed.next(pk).await }).await;
}

async fn a_running_thread_is_as_old_as_its_last_commit(bed: Bed) {
    let since = async || bed.store.figures(10_000).await.unwrap().threads.running_since;
    let (busy, hung, idle) = (bed.thread("busy").await, bed.thread("hung").await, bed.thread("idle").await);
    step(&bed, idle, ThreadStatus::Idle, 200).await;
    assert_eq!(since().await, None);
    for now in [1_000, 2_000, 3_000] {
        step(&bed, busy, ThreadStatus::Running, now).await;
    }
    assert_eq!(since().await, Some(3_000));
    step(&bed, hung, ThreadStatus::Running, 1_500).await;
    step(&bed, busy, ThreadStatus::Running, 4_000).await;
    assert_eq!(since().await, Some(1_500), "of those that run, the one that waits longest");
    // A commit that records nothing.
    bed.done(Commit { now: 5_000, status: ThreadStatus::Idle, ..bed.next(hung).await }).await;
    assert_eq!(since().await, Some(4_000));
    bed.done(Commit { now: 6_000, status: ThreadStatus::Running, ..bed.next(hung).await }).await;
    step(&bed, busy, ThreadStatus::Idle, 7_000).await;
    assert_eq!(since().await, Some(6_000), "its last entry is older");
}
