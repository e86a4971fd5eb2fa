//! What may be deleted of a thread that stays, and what may not, whoever asks for more.

use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, RowKind};
use pes::store::{Commit, Compaction, ObservationAsk};

use super::bed::{Bed, page, record, row};

super::on_every_store!(
    a_log_begins_later_only_where_it_was_said_to_begin,
    nothing_of_what_can_be_read_is_dropped,
    only_rows_that_are_never_loaded_are_dropped,
    only_threads_at_rest_are_found,
);

/// A thread with five commits of one observation each.
async fn five(bed: &Bed) -> ThreadPk {
    let pk = bed.thread("t").await;
    for _ in 0..5 {
        let records = vec![record("o", ObservationType::Intent, "run_1")];
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    pk
}

fn compaction(thread: ThreadPk, min_seq: i64, upto: i64) -> Compaction {
    Compaction { thread, min_seq, upto, base: format!("{{\"upto\":{upto}}}"), rows: Vec::new() }
}

async fn seqs(bed: &Bed, pk: ThreadPk) -> Vec<i64> {
    let ask = ObservationAsk { limit: 100, ..ObservationAsk::default() };
    bed.store.observations(pk, &ask).await.unwrap().into_iter().map(|seen| seen.seq).collect()
}

/// Two processes look at the same log: the one that comes later must not take it back.
async fn a_log_begins_later_only_where_it_was_said_to_begin(bed: Bed) {
    let pk = five(&bed).await;
    assert!(bed.store.compact(compaction(pk, 1, 3)).await.unwrap());
    assert!(!bed.store.compact(compaction(pk, 1, 2)).await.unwrap());
    assert_eq!(bed.read(pk).await.min_seq, 4);
    assert_eq!(bed.store.base(pk).await.unwrap(), Some((3, "{\"upto\":3}".to_owned())));
}

async fn nothing_of_what_can_be_read_is_dropped(bed: Bed) {
    let pk = five(&bed).await;
    assert_eq!(bed.store.drop_entries(pk, 5).await.unwrap(), 0);
    assert!(bed.store.compact(compaction(pk, 1, 3)).await.unwrap());
    assert_eq!(bed.store.drop_entries(pk, 5).await.unwrap(), 3);
    assert_eq!(seqs(&bed, pk).await, [4, 5]);
}

async fn only_rows_that_are_never_loaded_are_dropped(bed: Bed) {
    let pk = five(&bed).await;
    let kept = [Keep::Always, Keep::UntilFloor, Keep::Superseded, Keep::Never];
    let ids = ["always", "floor", "superseded", "never"];
    let rows = ids.iter().zip(kept).map(|(id, keep)| row(RowKind::Item, id, 9, keep)).collect();
    bed.write(pk, rows).await;
    let all = || ids.map(|id| (RowKind::Item, id.to_owned())).to_vec();
    let left = async || {
        let mut ids: Vec<String> = Vec::new();
        let found = bed.store.rows(pk, RowKind::Item, false, &page(10)).await.unwrap().items;
        ids.extend(found.into_iter().map(|row| row.id));
        ids.sort();
        ids
    };
    assert_eq!(bed.store.drop_rows(pk, all()).await.unwrap(), 1);
    assert_eq!(left().await, ["always", "floor", "superseded"]);
    // Those that go with a part of the log are no others.
    assert!(bed.store.compact(Compaction { rows: all(), ..compaction(pk, 1, 3) }).await.unwrap());
    assert_eq!(left().await, ["always", "floor", "superseded"]);
}

async fn only_threads_at_rest_are_found(bed: Bed) {
    let mut at_rest = Vec::new();
    for (n, status) in ThreadStatus::ALL.into_iter().enumerate() {
        let pk = bed.thread(&format!("t{n}")).await;
        bed.done(Commit { status, ..bed.next(pk).await }).await;
        match status {
            ThreadStatus::Idle | ThreadStatus::Failed | ThreadStatus::Quarantined => at_rest.push(pk),
            ThreadStatus::Running | ThreadStatus::Suspended | ThreadStatus::Waiting => {}
        }
    }
    let behind = (i64::MIN, ThreadPk::NONE);
    let found = bed.store.threads_at_rest(bed.tenant, i64::MAX, behind, 100).await.unwrap();
    let mut found: Vec<ThreadPk> = found.into_iter().map(|(_, pk)| pk).collect();
    found.sort_unstable();
    assert_eq!(found, at_rest);
}
