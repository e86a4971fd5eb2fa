//! A commit that returns `Done` is stored completely.

use pes::domain::observation::{Observation, ObservationType, RecordMetadata};
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, RowKind};
use pes::store::{Commit, Committed, Fence};
use serde_json::json;

use super::bed::{Bed, named, page, record, row, state_update};
use crate::support::together;

super::on_every_store!(
    a_new_thread_is_idle_and_empty,
    a_commit_is_readable_as_a_whole,
    what_a_commit_does_not_mention_stays,
    a_row_written_again_is_replaced,
    numbers_are_contiguous_whoever_commits,
    many_threads_commit_at_once,
);

async fn a_new_thread_is_idle_and_empty(bed: Bed) {
    let pk = bed.thread("t1").await;
    let thread = bed.read(pk).await;
    assert_eq!(thread.fence, Fence { epoch: 0, lease: None, version: 1 });
    assert_eq!((thread.status, thread.last_seq, thread.min_seq), (ThreadStatus::Idle, 0, 1));
    assert_eq!((thread.created_at, thread.updated_at, thread.wake_at), (10, 10, None));
    assert_eq!((thread.core.as_str(), thread.head.as_str(), thread.replica), ("pes", "", None));
    assert_eq!(bed.store.thread(bed.tenant, &"t1".into()).await.unwrap(), Some(thread.clone()));
    assert_eq!(bed.store.load(pk).await.unwrap(), Some((thread, Vec::new())));
    assert_eq!(bed.observations(pk).await, []);
}

async fn a_commit_is_readable_as_a_whole(bed: Bed) {
    let pk = bed.thread("t1").await;
    let first = record("obs_1", ObservationType::RunStarted, "run_1");
    let mut second = record("obs_2", ObservationType::ToolCall, "run_1");
    second.parent_id = Some("item_1".into());
    second.title = "a title".into();
    second.fact = state_update(json!({"n": 1.5, "z": null, "a": [true]}));
    second.metadata = Some(RecordMetadata { by: Some("ann".into()), ..RecordMetadata::default() });
    let profile = ThreadProfile { title: Some("Title".into()), ..ThreadProfile::default() };
    let rows = vec![row(RowKind::Item, "item_1", 1, Keep::Always), row(RowKind::Payload, "p1", 0, Keep::Never)];
    let commit = Commit {
        now: 77,
        head: Some("{\"v\":1}".into()),
        profile: Some(Box::new(profile.clone())),
        status: ThreadStatus::Running,
        wake_at: Some(1234),
        floor: 3,
        rows: rows.clone(),
        records: vec![first.clone(), second.clone()],
        idempotency: Some(bed.key("k")),
        audit: vec![bed.audit_line(pk, "ann"), bed.audit_line(pk, "bob")],
        ..bed.next(pk).await
    };
    bed.done(commit).await;

    let thread = bed.read(pk).await;
    assert_eq!(thread.fence.version, 2);
    assert_eq!((thread.head.as_str(), &thread.profile), ("{\"v\":1}", &profile));
    assert_eq!((thread.status, thread.wake_at, thread.updated_at), (ThreadStatus::Running, Some(1234), 77));
    assert_eq!((thread.floor, thread.last_seq), (3, 2));
    assert_eq!(bed.store.row(pk, RowKind::Item, "item_1").await.unwrap().as_ref(), Some(&rows[0]));
    assert_eq!(bed.store.row(pk, RowKind::Payload, "p1").await.unwrap().as_ref(), Some(&rows[1]));
    let expected = [Observation::of(first, "t1".into(), 1), Observation::of(second, "t1".into(), 2)];
    assert_eq!(bed.observations(pk).await, expected);
    let key = bed.store.idempotency(bed.tenant, "POST /threads", "k").await.unwrap();
    assert_eq!(key, Some(bed.key("k")));
    assert_eq!(bed.audit(pk).await, [bed.audit_line(pk, "ann"), bed.audit_line(pk, "bob")]);
    let (id, mut lines, mut ask) = (named(pk), Vec::new(), page(1));
    while {
        let found = bed.store.audit(bed.tenant, &id, &ask).await.unwrap();
        lines.extend(found.items);
        ask.cursor = found.next_cursor;
        ask.cursor.is_some()
    } {
        assert!(lines.len() < 3, "it goes on for ever");
    }
    assert_eq!(lines, bed.audit(pk).await, "page by page");
}

async fn what_a_commit_does_not_mention_stays(bed: Bed) {
    let pk = bed.thread("t1").await;
    let profile = ThreadProfile { title: Some("Title".into()), ..ThreadProfile::default() };
    let commit = Commit { head: Some("head".into()), profile: Some(Box::new(profile.clone())), ..bed.next(pk).await };
    bed.done(commit).await;
    bed.write(pk, vec![row(RowKind::Item, "a", 1, Keep::Always)]).await;
    let commit = Commit { now: 5000, records: vec![record("o", ObservationType::Intent, "r")], ..bed.next(pk).await };
    bed.done(commit).await;
    let thread = bed.read(pk).await;
    assert_eq!((thread.head.as_str(), thread.profile), ("head", profile));
    assert_eq!(thread.updated_at, 100, "neither status, message nor profile: no activity");
    assert!(bed.store.row(pk, RowKind::Item, "a").await.unwrap().is_some());
}

async fn a_row_written_again_is_replaced(bed: Bed) {
    let (pk, other) = (bed.thread("t1").await, bed.thread("t2").await);
    let rows = [row(RowKind::Item, "a", 1, Keep::Always), row(RowKind::Call, "a", 1, Keep::Always)];
    bed.write(pk, rows.to_vec()).await;
    bed.write(other, rows.to_vec()).await;
    bed.write(pk, vec![row(RowKind::Item, "a", 9, Keep::Never)]).await;
    let item = bed.store.row(pk, RowKind::Item, "a").await.unwrap();
    assert_eq!(item, Some(row(RowKind::Item, "a", 9, Keep::Never)));
    let (_, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!(loaded, [row(RowKind::Call, "a", 1, Keep::Always)]);
    bed.write(pk, vec![row(RowKind::Call, "a", 1, Keep::Never)]).await;
    let (_, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!(loaded, [], "it has moved nowhere, but is not loaded any more");
    let (_, loaded) = bed.store.load(other).await.unwrap().unwrap();
    assert_eq!(loaded, rows, "rows of another thread under the same ids");
}

async fn numbers_are_contiguous_whoever_commits(bed: Bed) {
    let pk = bed.thread("t1").await;
    let writers = (0..6).map(|writer| {
        let bed = bed.clone();
        async move {
            for nth in 0..5 {
                let id = format!("obs_{writer}_{nth}");
                let records = vec![record(&id, ObservationType::Intent, "r"), record(&id, ObservationType::Title, "r")];
                while bed.store.commit(Commit { records: records.clone(), ..bed.next(pk).await }).await.unwrap()
                    == Committed::Stale
                {}
            }
        }
    });
    together(writers).await;
    let observations = bed.observations(pk).await;
    assert!(observations.iter().map(|o| o.seq).eq(1..=60));
    assert!(observations.chunks(2).all(|pair| pair[0].id == pair[1].id), "the records of a commit stay together");
    assert_eq!(bed.read(pk).await.last_seq, 60);
}

async fn many_threads_commit_at_once(bed: Bed) {
    let writers = (0..40).map(|n| {
        let bed = bed.clone();
        async move {
            let pk = bed.thread(&format!("t{n}")).await;
            for _ in 0..5 {
                let records = vec![record("o", ObservationType::Intent, "r")];
                let commit =
                    Commit { records, rows: vec![row(RowKind::Turn, "x", n, Keep::Always)], ..bed.next(pk).await };
                bed.done(commit).await;
            }
            pk
        }
    });
    for (n, pk) in together(writers).await.into_iter().enumerate() {
        let (thread, rows) = bed.store.load(pk).await.unwrap().unwrap();
        assert_eq!((thread.fence.version, thread.last_seq), (6, 5));
        assert_eq!(rows, [row(RowKind::Turn, "x", n as i64, Keep::Always)]);
    }
}
