//! Which data of a live thread may be deleted, and which may not, whatever the caller asks.

use pes::domain::ids::ThreadPk;
use pes::domain::observation::{ObservationType, Record};
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{Commit, Compaction, Dropped, ObservationAsk, Order, RunEnd};
use serde_json::{Value, json};
use uuid::Uuid;

use super::bed::{Bed, ids, page, record, row, state_update};

super::on_every_form_of_log!(
    a_log_begins_later_only_where_it_was_said_to_begin,
    what_becomes_old_is_of_one_thread_and_tenant,
    nothing_of_what_can_be_read_is_dropped,
    names_that_are_not_kept_are_old_entries_until_these_are_dropped,
    no_more_than_a_few_megabytes_go_in_one_transaction,
    only_rows_that_are_never_loaded_are_dropped,
    only_what_is_below_the_floor_of_its_thread_is_dropped,
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
    Compaction { thread, min_seq, upto, base: format!("{{\"upto\":{upto}}}"), unnamed: Vec::new() }
}

/// This many were dropped, and no other is left.
fn all(count: u64) -> Dropped {
    Dropped { count, is_more: false }
}

async fn seqs(bed: &Bed, pk: ThreadPk) -> Vec<i64> {
    let ask = ObservationAsk { limit: 100, ..ObservationAsk::default() };
    bed.store.observations(pk, &ask).await.unwrap().into_iter().map(|seen| seen.seq).collect()
}

/// Two processes shorten the same log: the later one must not undo the earlier one's work.
async fn a_log_begins_later_only_where_it_was_said_to_begin(bed: Bed) {
    let pk = five(&bed).await;
    assert!(bed.store.compact(compaction(pk, 1, 3)).await.unwrap());
    assert!(!bed.store.compact(compaction(pk, 1, 2)).await.unwrap());
    assert_eq!(bed.read(pk).await.min_seq, 4);
    assert_eq!(bed.store.base(pk).await.unwrap(), Some((3, "{\"upto\":3}".to_owned())));
}

/// Beside a thread on hold, and one of another tenant.
async fn what_becomes_old_is_of_one_thread_and_tenant(bed: Bed) {
    let other = bed.other_tenant().await;
    let (pk, theirs, held) = (five(&bed).await, five(&other).await, bed.thread("held").await);
    let hold = json!({ "hold": { "reason": "case" } }).to_string();
    bed.write(held, vec![Row { body: hold, ..row(RowKind::Retention, "", 0, Keep::Never) }]).await;
    assert!(!bed.store.compact(compaction(held, 1, 1)).await.unwrap());
    assert!(bed.store.compact(compaction(pk, 1, 3)).await.unwrap());
    assert_eq!((bed.read(pk).await.min_seq, bed.read(theirs).await.min_seq), (4, 1));
    assert_eq!(bed.store.base(theirs).await.unwrap(), None);
    assert_eq!(bed.store.drop_entries(pk, 5).await.unwrap(), all(3));
    assert_eq!(bed.store.old_entries(pk, 3, 9).await.unwrap(), []);
    assert_eq!((seqs(&bed, pk).await, seqs(&other, theirs).await), (vec![4, 5], vec![1, 2, 3, 4, 5]));

    let used = bed.read(theirs).await.updated_at;
    for (before, found) in [(used + 1, vec![(used, theirs)]), (used, vec![])] {
        let behind = (i64::MIN, ThreadPk::NONE);
        assert_eq!(bed.store.threads_at_rest(other.tenant, before, behind, 9).await.unwrap(), found);
    }
    for (bed, pk, run) in [(&bed, pk, "ours"), (&other, theirs, "theirs")] {
        bed.write(pk, vec![row(RowKind::CallerStatus, run, 7, Keep::Never)]).await;
        let upto = RunEnd { at: 7, run: run.into(), thread: ThreadPk::NONE };
        bed.store.set_compacted(bed.tenant, &upto).await.unwrap();
    }
    for (tenant, pk, run) in [(bed.tenant, pk, "ours"), (other.tenant, theirs, "theirs")] {
        assert_eq!(bed.store.compacted(tenant).await.unwrap().run.as_str(), run);
        let behind = RunEnd { at: 0, run: "".into(), thread: ThreadPk::NONE };
        let ended = RunEnd { at: 7, run: run.into(), thread: pk };
        assert_eq!(bed.store.runs_since(tenant, &behind, 8, 9).await.unwrap(), [ended]);
    }
}

async fn nothing_of_what_can_be_read_is_dropped(bed: Bed) {
    let pk = five(&bed).await;
    assert_eq!(bed.store.drop_entries(pk, 5).await.unwrap(), all(0));
    assert!(bed.store.compact(compaction(pk, 1, 3)).await.unwrap());
    assert_eq!(seqs(&bed, pk).await, [4, 5], "before the rest is dropped");
    assert_eq!(bed.store.drop_entries(pk, 5).await.unwrap(), all(3));
    assert_eq!(seqs(&bed, pk).await, [4, 5]);
    let empty = bed.thread("empty").await;
    let last = async |pk, upto| bed.store.last_entry(pk, upto).await.unwrap();
    assert_eq!((last(pk, 9).await, last(pk, 4).await, last(empty, 9).await), (Some(5), Some(4), None));
}

/// A process that continues after another was killed looks under these names, even if the entry with their number is
/// left.
async fn names_that_are_not_kept_are_old_entries_until_these_are_dropped(bed: Bed) {
    let pk = five(&bed).await;
    let named = |upto, name: &str| Compaction { unnamed: vec![name.to_owned()], ..compaction(pk, upto, upto) };
    assert!(bed.store.compact(compaction(pk, 1, 1)).await.unwrap());
    assert!(bed.store.compact(named(2, "call_1")).await.unwrap());
    assert_eq!(bed.store.drop_entries(pk, 2).await.unwrap(), all(2));
    assert!(bed.store.compact(named(3, "call_2")).await.unwrap());
    let old: Vec<(i64, Value)> = bed.store.old_entries(pk, 3, 9).await.unwrap().into_iter().map(parsed).collect();
    assert_eq!(old[0], (2, json!(["call_2"])));
    assert!(bed.store.compact(named(4, "call_3")).await.unwrap());
    let old: Vec<(i64, Value)> = bed.store.old_entries(pk, 4, 9).await.unwrap().into_iter().map(parsed).collect();
    assert_eq!((old[0].0, old[1].0, &old[1].1[1]), (2, 3, &json!(["call_3"])));
    assert!(old[1].1[0].to_string().contains("run_1"), "{old:?}");
    assert_eq!(seqs(&bed, pk).await, [5]);
    assert_eq!(bed.store.drop_entries(pk, 4).await.unwrap(), all(3));
    assert_eq!(bed.store.old_entries(pk, 4, 9).await.unwrap(), []);
}

fn parsed((seq, body): (i64, String)) -> (i64, Value) {
    (seq, serde_json::from_str(&body).unwrap())
}

/// So that no commit waits long.
async fn no_more_than_a_few_megabytes_go_in_one_transaction(bed: Bed) {
    const MEGABYTE: usize = 1 << 20;
    let pk = bed.thread("t").await;
    // Text that neither a database nor the log can compress: digits of ids in lower case would be stored as bytes.
    let noise = || (0..MEGABYTE / 32).map(|_| Uuid::new_v4().simple().to_string().to_uppercase()).collect::<String>();
    let large = |kind, n: i64, keep| Row { body: json!(noise()).to_string(), ..row(kind, &format!("p{n}"), n, keep) };
    for n in 0..12 {
        let rows = vec![large(RowKind::Payload, n, Keep::Never), large(RowKind::Turn, n, Keep::UntilFloor)];
        let told =
            Record { fact: state_update(json!({ "said": noise() })), ..record("o", ObservationType::Intent, "r") };
        bed.done(Commit { rows, records: vec![told], floor: 100, ..bed.next(pk).await }).await;
    }
    assert!(bed.store.compact(compaction(pk, 1, 12)).await.unwrap());
    let rows: Vec<_> = (0..12).map(|n| (RowKind::Payload, format!("p{n}"))).collect();
    for which in ["rows", "entries", "below the floor"] {
        let mut steps = Vec::new();
        while steps.last().is_none_or(|step: &Dropped| step.is_more) {
            steps.push(match which {
                "rows" => bed.store.drop_rows(pk, rows.clone()).await.unwrap(),
                "entries" => bed.store.drop_entries(pk, 12).await.unwrap(),
                _ => bed.store.drop_below_floor(pk, 100).await.unwrap(),
            });
        }
        assert!(steps.len() <= 4 && steps.iter().all(|step| (1..=6).contains(&step.count)), "{which}: {steps:?}");
        assert_eq!(steps.iter().map(|step| step.count).sum::<u64>(), 12, "{which}: {steps:?}");
    }
    for kind in [RowKind::Payload, RowKind::Turn] {
        assert_eq!(bed.store.rows(pk, kind, Order::Ascending, &page(100)).await.unwrap().items, []);
    }
    assert_eq!(bed.store.old_entries(pk, 12, 100).await.unwrap(), []);
}

async fn only_rows_that_are_never_loaded_are_dropped(bed: Bed) {
    let pk = five(&bed).await;
    let kept = [Keep::Always, Keep::UntilFloor, Keep::Superseded, Keep::Never];
    let ids = ["always", "floor", "superseded", "never"];
    let rows = ids.iter().zip(kept).map(|(id, keep)| row(RowKind::Item, id, 9, keep)).collect();
    bed.write(pk, rows).await;
    let asked = ids.map(|id| (RowKind::Item, id.to_owned())).to_vec();
    let left = async || {
        let mut ids: Vec<String> = Vec::new();
        let found = bed.store.rows(pk, RowKind::Item, Order::Ascending, &page(10)).await.unwrap().items;
        ids.extend(found.into_iter().map(|row| row.id));
        ids.sort();
        ids
    };
    assert_eq!(bed.store.drop_rows(pk, asked).await.unwrap(), all(1));
    assert_eq!(left().await, ["always", "floor", "superseded"]);
}

async fn only_what_is_below_the_floor_of_its_thread_is_dropped(bed: Bed) {
    let (pk, other) = (bed.thread("a").await, bed.thread("b").await);
    let turn = |id: &str, ord| row(RowKind::Turn, id, ord, Keep::UntilFloor);
    for (pk, floor) in [(pk, 5), (other, 0)] {
        bed.done(Commit { rows: vec![turn("below", 4), turn("at", 5)], floor, ..bed.next(pk).await }).await;
    }
    assert_eq!(bed.store.drop_below_floor(pk, 9).await.unwrap(), all(1));
    for (pk, left) in [(pk, &["at"][..]), (other, &["below", "at"][..])] {
        let found = bed.store.rows(pk, RowKind::Turn, Order::Ascending, &page(9)).await.unwrap();
        assert_eq!(ids(&found.items), left);
    }
}

async fn only_threads_at_rest_are_found(bed: Bed) {
    let (mut at_rest, mut erasable) = (Vec::new(), Vec::new());
    for (n, status) in ThreadStatus::ALL.into_iter().enumerate() {
        let pk = bed.thread(&format!("t{n}")).await;
        bed.done(Commit { status, ..bed.next(pk).await }).await;
        match status {
            ThreadStatus::Idle | ThreadStatus::Failed | ThreadStatus::Quarantined => at_rest.push(pk),
            ThreadStatus::Running | ThreadStatus::Suspended | ThreadStatus::Waiting => {}
        }
        if status.may_be_erased() {
            erasable.push(pk);
        }
    }
    let behind = (i64::MIN, ThreadPk::NONE);
    let found = bed.store.threads_at_rest(bed.tenant, i64::MAX, behind, 100).await.unwrap();
    let mut found: Vec<ThreadPk> = found.into_iter().map(|(_, pk)| pk).collect();
    found.sort_unstable();
    assert_eq!((&found, &erasable), (&at_rest, &at_rest));
}
