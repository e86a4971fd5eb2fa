//! What deleted threads leave behind, and how it is removed.

use std::path::Path;
use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::lookup::LookupKey;
use pes::domain::observation::{ObservationType, Record};
use pes::domain::run::CallerStatus;
use pes::domain::usage::UsageGroup;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::sqlite::Sqlite;
use pes::store::{Commit, NewLookup, Order, RunsByStatusAsk, UsageAsk};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use uuid::Uuid;

use super::bed::{Bed, page, record, row, state_update};
use crate::support::store::occurrences;

super::on_every_store!(
    a_large_thread_is_gone_at_once_and_its_rows_a_few_at_a_time,
    of_a_deleted_thread_no_more_than_a_few_megabytes_go_in_one_transaction,
    a_deleted_thread_waits_to_begin_no_longer,
    what_a_deleted_thread_had_is_counted_no_more,
    what_a_call_took_that_cannot_be_read_goes_with_its_thread,
);

fn used(id: usize) -> Row {
    let body = json!({
        "run": "r", "item": "i", "provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1, "thinkingTokens": 0,
        "cachedInputTokens": 0,
    });
    Row { kind: RowKind::Usage, id: format!("u{id}"), ord: 5, keep: Keep::Never, body: body.to_string() }
}

async fn calls(bed: &Bed) -> u64 {
    let group = UsageGroup::Model;
    let ask = UsageAsk { tenant: bed.tenant, group, thread: None, from: i64::MIN, to: i64::MAX, page: page(10) };
    bed.store.usage(&ask).await.unwrap().items.iter().map(|sum| sum.calls).sum()
}

async fn a_large_thread_is_gone_at_once_and_its_rows_a_few_at_a_time(bed: Bed) {
    let pk = bed.thread("large").await;
    bed.write(pk, (0..2_000).map(used).collect()).await;
    bed.write(pk, (0..1_500).map(|n| row(RowKind::Payload, &format!("p{n}"), n, Keep::Never)).collect()).await;
    assert!(bed.erase(pk).await);
    assert_eq!(bed.store.load(pk).await.unwrap(), None);
    assert_eq!(calls(&bed).await, 2_000, "what it took counts all the time");
    let mut steps = Vec::new();
    loop {
        match bed.store.erase_rows(400).await.unwrap() {
            0 => break,
            removed => steps.push(removed),
        }
        assert_eq!(calls(&bed).await, 2_000);
    }
    assert!(steps.len() >= 6 && steps.iter().all(|removed| *removed <= 400), "{steps:?}");
    assert_eq!(bed.store.rows(pk, RowKind::Payload, Order::Ascending, &page(1)).await.unwrap().items, []);
    assert!(bed.store.overwrite_erased().await.unwrap());
}

async fn of_a_deleted_thread_no_more_than_a_few_megabytes_go_in_one_transaction(bed: Bed) {
    let pk = bed.thread("large").await;
    for n in 0..16 {
        let noise: String = (0..(1 << 20) / 32).map(|_| Uuid::new_v4().simple().to_string()).collect();
        bed.write(
            pk,
            vec![Row { body: json!(noise).to_string(), ..row(RowKind::Payload, &format!("p{n}"), n, Keep::Never) }],
        )
        .await;
    }
    let all: Vec<_> = (0..16).map(|n| (pk, RowKind::Payload, format!("p{n}"))).collect();
    let left = async || bed.store.row_bytes(&all).await.unwrap().len();
    assert!(bed.erase(pk).await);
    let first = left().await;
    bed.store.erase_rows(400).await.unwrap();
    let second = left().await;
    assert!((10..16).contains(&first) && (4..first).contains(&second), "{first}, then {second} of 16 are left");
    while bed.store.erase_rows(400).await.unwrap() > 0 {}
    assert_eq!(left().await, 0);
}

/// Also while most of its rows are left.
async fn a_deleted_thread_waits_to_begin_no_longer(bed: Bed) {
    let pk = bed.thread("large").await;
    bed.write(pk, (0..1_500).map(|n| row(RowKind::Payload, &format!("p{n}"), n, Keep::Never)).collect()).await;
    bed.write(pk, vec![row(RowKind::WaitsToBegin, "", 5, Keep::Never)]).await;
    assert_eq!(bed.store.threads_to_begin(bed.tenant, 9).await.unwrap(), [pk]);
    assert!(bed.erase(pk).await);
    assert_ne!(bed.store.rows(pk, RowKind::Payload, Order::Ascending, &page(1)).await.unwrap().items, []);
    assert_eq!(bed.store.threads_to_begin(bed.tenant, 9).await.unwrap(), []);
    assert_eq!(bed.store.tenants_to_begin().await.unwrap(), []);
    assert_eq!(bed.store.count_to_begin(bed.tenant, 9).await.unwrap(), 0);
}

/// Runs, those of a status, those that are not over, and open questions.
async fn counted(bed: &Bed) -> [u64; 4] {
    let all = RunsByStatusAsk { tenant: bed.tenant, thread: None, statuses: vec![], since: None, page: page(9) };
    let running = RunsByStatusAsk { statuses: vec![CallerStatus::Running], ..all.clone() };
    let runs = bed.store.count_by_caller_status(&all).await.unwrap();
    let of_status = bed.store.count_by_caller_status(&running).await.unwrap();
    let figures = bed.store.figures(10, 10).await.unwrap();
    let questions = figures.questions.iter().map(|questions| questions.count).sum();
    [runs, of_status, figures.runs.iter().map(|(_, count)| count).sum(), questions]
}

/// Also while its rows are left.
async fn what_a_deleted_thread_had_is_counted_no_more(bed: Bed) {
    let (stays, goes) = (bed.thread("stays").await, bed.thread("goes").await);
    for (pk, run) in [(stays, "run_1"), (goes, "run_2")] {
        let with = |body: Value, row: Row| Row { body: body.to_string(), ..row };
        let rows = vec![
            with(json!("running"), row(RowKind::CallerStatus, run, 5, Keep::Never)),
            with(json!({ "status": "running" }), row(RowKind::Run, run, 1, Keep::Always)),
            with(json!({ "kind": "approval", "createdAt": 7 }), row(RowKind::Suspension, run, 2, Keep::Always)),
        ];
        bed.write(pk, rows).await;
    }
    // So much is removed before them.
    let key = |n: usize| LookupKey { kind: "chat", digest: format!("d{n}") };
    let lookups = (0..1_000).map(|n| NewLookup { key: key(n), run: "run_2".into() }).collect();
    bed.done(Commit { lookups, ..bed.next(goes).await }).await;
    assert_eq!(counted(&bed).await, [2; 4]);
    assert!(bed.erase(goes).await);
    for kind in [RowKind::CallerStatus, RowKind::Run, RowKind::Suspension] {
        assert!(bed.store.row(goes, kind, "run_2").await.unwrap().is_some(), "{kind:?} is left");
    }
    assert_eq!(counted(&bed).await, [1; 4]);
    while bed.store.erase_rows(500).await.unwrap() > 0 {}
    assert_eq!(counted(&bed).await, [1; 4]);
}

async fn what_a_call_took_that_cannot_be_read_goes_with_its_thread(bed: Bed) {
    let pk = bed.thread("damaged").await;
    bed.write(pk, vec![used(1), Row { body: "x".to_owned(), ..used(2) }]).await;
    assert!(bed.erase(pk).await);
    assert_eq!(calls(&bed).await, 1);
}

/// Another connection to the same file.
async fn connect(folder: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", folder.join("pes.db").display())).await.unwrap()
}

async fn assert_whole(other: &mut SqliteConnection) {
    let whole: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(other).await.unwrap();
    assert_eq!(whole, "ok");
}

/// A thread's next commit: a row that grows and shrinks, a new row, a head, an observation, a payload.
fn next(bed: &Bed, commit: Commit, marker: &str, step: usize) -> Commit {
    let body = |times: usize| json!({ "text": marker.repeat(times) }).to_string();
    let kept = |kind, id: String, times| Row { kind, id, ord: step as i64, keep: Keep::Always, body: body(times) };
    let told = state_update(json!({ "said": marker.repeat(3 + step % 9) }));
    Commit {
        head: Some(body(2 + step % 13)),
        rows: vec![
            kept(RowKind::Progress, format!("i{}", step % 7), 1 + (step * 37) % 90),
            kept(RowKind::Turn, format!("t{step}"), 1 + (step * 13) % 40),
            kept(RowKind::Payload, format!("p{step}"), 150),
        ],
        records: vec![Record { fact: told, ..record(&format!("o{step}"), ObservationType::StateUpdate, "r") }],
        idempotency: Some(bed.key(&format!("{marker}-{step}"))),
        ..commit
    }
}

#[tokio::test]
async fn no_byte_of_a_deleted_thread_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let bed = Bed::on(Arc::new(store), Arc::new(())).await;
    let mut threads = Vec::new();
    for n in 0..12 {
        threads.push((bed.thread(&format!("t{n}")).await, Uuid::new_v4().to_string()));
    }
    // Rows of alternating threads share pages, and move each other.
    for step in 0..30 {
        for (pk, marker) in &threads {
            let commit = next(&bed, bed.next(*pk).await, marker, step);
            bed.done(commit).await;
        }
    }
    for (_, marker) in &threads {
        assert!(occurrences(folder.path(), marker) > 0, "the same search finds it while it is there");
    }
    let (gone, stay) = threads.split_at(8);
    for (pk, _) in gone {
        assert!(bed.erase(*pk).await);
    }
    while bed.store.erase_rows(500).await.unwrap() > 0 {}
    assert!(bed.store.overwrite_erased().await.unwrap());
    for (_, marker) in gone {
        assert_eq!(occurrences(folder.path(), marker), 0);
    }
    for (pk, marker) in stay {
        assert!(bed.everything(*pk).await.contains(marker));
        bed.done(next(&bed, bed.next(*pk).await, marker, 41)).await;
    }
    assert_whole(&mut connect(folder.path()).await).await;
}

/// Rows of one to thirty markers that grow and shrink with each commit: those that outgrow their page move to another
/// one, and SQLite leaves some of their bytes in the freed space.
fn resized(bed: &Bed, commit: Commit, marker: &str, thread: usize, step: usize) -> Commit {
    let row = |n: usize| {
        let times = 1 + (step * 7_919 + n * 104_729 + thread * 1_299_709) % 30;
        let body = json!({ "text": marker.repeat(times) }).to_string();
        Row { kind: RowKind::Progress, id: format!("i{n}"), ord: n as i64, keep: Keep::Never, body }
    };
    Commit { rows: (0..10).map(row).collect(), idempotency: Some(bed.key(&format!("{marker}-{step}"))), ..commit }
}

#[tokio::test]
async fn bytes_of_rows_that_moved_to_other_pages_are_overwritten_in_those_they_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let bed = Bed::on(Arc::new(store), Arc::new(())).await;
    let mut threads = Vec::new();
    for n in 0..30 {
        threads.push((bed.thread(&format!("t{n}")).await, Uuid::new_v4().to_string()));
    }
    for step in 0..30 {
        for (n, (pk, marker)) in threads.iter().enumerate() {
            let commit = resized(&bed, bed.next(*pk).await, marker, n, step);
            bed.done(commit).await;
        }
    }
    let (gone, stay): (Vec<_>, Vec<_>) = threads.into_iter().enumerate().partition(|(n, _)| n % 3 == 0);
    for (_, (pk, marker)) in &gone {
        assert!(occurrences(folder.path(), marker) > 0, "the same search finds it while it is there");
        assert!(bed.erase(*pk).await);
    }
    while bed.store.erase_rows(500).await.unwrap() > 0 {}
    let mut other = connect(folder.path()).await;
    sqlx::raw_sql("PRAGMA wal_checkpoint(truncate)").execute(&mut other).await.unwrap();
    let left: Vec<usize> = gone.iter().map(|(_, (_, marker))| occurrences(folder.path(), marker)).collect();
    assert!(left.iter().any(|count| *count > 0), "no row moved: this does not show what it is about");
    assert!(bed.store.overwrite_erased().await.unwrap());
    for (_, (_, marker)) in &gone {
        assert_eq!(occurrences(folder.path(), marker), 0, "{left:?} were left by SQLite");
    }
    for (n, (pk, marker)) in &stay {
        assert!(bed.everything(*pk).await.contains(marker));
        bed.done(resized(&bed, bed.next(*pk).await, marker, *n, 31)).await;
    }
    assert_whole(&mut other).await;
}

#[tokio::test]
async fn a_reader_in_the_way_is_said_and_waited_for_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let bed = Bed::on(Arc::new(store), Arc::new(())).await;
    let (pk, marker) = (bed.thread("t").await, Uuid::new_v4().to_string());
    bed.done(next(&bed, bed.next(pk).await, &marker, 1)).await;
    let mut reader = connect(folder.path()).await;
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM threads").execute(&mut reader).await.unwrap();
    bed.erase(pk).await;
    assert!(!bed.store.overwrite_erased().await.unwrap());
    assert!(occurrences(folder.path(), &marker) > 0, "the reader may still look at it");
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    assert!(bed.store.overwrite_erased().await.unwrap());
    assert_eq!(occurrences(folder.path(), &marker), 0);
}
