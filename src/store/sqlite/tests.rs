//! A batch is sent again after its connection was lost, and queries use the intended indexes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{StatementStatus, Transaction, params};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Sqlite, figures, idempotency, leases, lookups, outbox, rows, sessions, threads, usage};
use crate::config::Synchronous;
use crate::domain::facts::TitleBody;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::observation::Record;
use crate::domain::thread::ThreadProfile;
use crate::store::committer::{Batch, CommitSlice, PreparedCommit, Sending};
use crate::store::leases::MAX_OVERDUE_SCANNED;
use crate::store::{
    Commit, Committed, ErasureStore as _, Error, Fence, IdempotencyRow, LogStore as _, NewThread, ObservationAsk,
    Store as _, ThreadReads as _, ThreadStore as _, log,
};

fn creating(pk: i64) -> Commit {
    let record = Record {
        id: "obs_1".into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: "trace".into(),
        timestamp: 1,
        title: String::new(),
        fact: TitleBody { title: "A title".into() }.into(),
        metadata: None,
    };
    let key = IdempotencyRow {
        tenant: TenantPk(1),
        scope: "POST /threads".into(),
        key: format!("k{pk}"),
        fingerprint: "f".into(),
        status: 201,
        body: "{}".into(),
        location: None,
        created_at: 1,
    };
    let new = NewThread {
        tenant: TenantPk(1),
        thread_id: format!("t{pk}").into(),
        core: "pes".into(),
        created_at: 1,
        created_by: "ann".into(),
    };
    Commit { records: vec![record], ..Commit::creating(ThreadPk(pk), new, ThreadProfile::default(), Some(key)) }
}

fn slices<const N: usize>(commits: [Commit; N]) -> impl Fn(Range<usize>) -> CommitSlice {
    let prepared = commits.map(|commit| PreparedCommit::of(commit, log::LogFormat::Json));
    let batch = Arc::new(Vec::from(prepared));
    move |places| CommitSlice::of(&batch, places)
}

#[tokio::test]
async fn what_landed_the_first_time_is_done_and_not_done_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let mut writer = store.writer.clone();
    let stale = Commit { fence: Fence { version: 7, ..Fence::NEW }, create: None, ..creating(2) };
    let batch = slices([creating(1), stale, creating(3)]);
    let expected = [Committed::Done, Committed::Stale, Committed::Done];
    assert_eq!(writer.apply(batch(0..2), Sending::First).await.unwrap(), expected[..2]);
    assert_eq!(writer.apply(batch(0..3), Sending::Again).await.unwrap(), expected);
    assert_eq!(writer.apply(batch(0..3), Sending::Again).await.unwrap(), expected);
    for pk in [1, 3] {
        let thread = store.thread_by_pk(ThreadPk(pk)).await.unwrap().unwrap();
        assert_eq!((thread.fence.version, thread.last_seq), (1, 1));
        let ask = ObservationAsk { limit: 9, ..Default::default() };
        assert_eq!(store.observations(ThreadPk(pk), &ask).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn one_that_landed_alone_is_done_and_not_done_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let mut writer = store.writer.clone();
    let mut apply = async |commit: Commit, sending| writer.apply(slices([commit])(0..1), sending).await.unwrap();
    assert_eq!(apply(creating(1), Sending::First).await, [Committed::Done]);
    let next = Commit {
        create: None,
        idempotency: None,
        fence: Fence { version: 1, ..Fence::NEW },
        last_seq: 1,
        token: uuid::Uuid::new_v4(),
        ..creating(1)
    };
    for sending in [Sending::First, Sending::Again, Sending::Again] {
        assert_eq!(apply(next.clone(), sending).await, [Committed::Done]);
    }
    let another = Commit { token: uuid::Uuid::new_v4(), ..next };
    assert_eq!(apply(another.clone(), Sending::First).await, [Committed::Stale]);
    let not_landed = Commit { fence: Fence { version: 2, ..Fence::NEW }, last_seq: 2, ..another };
    assert_eq!(apply(not_landed, Sending::Again).await, [Committed::Done]);
    let thread = store.thread_by_pk(ThreadPk(1)).await.unwrap().unwrap();
    assert_eq!((thread.fence.version, thread.last_seq), (3, 3));
}

/// It would take longer than most reads; SQLite's build options prevent it.
#[tokio::test]
async fn no_statement_is_prepared_again_for_other_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let prepared_again = |tx: &Transaction<'_>| {
        let mut statement = tx.prepare("SELECT pk FROM threads WHERE pk > ?1 AND status = ?2 ORDER BY pk LIMIT ?3")?;
        for (after, status, limit) in [(0, "idle", 1), (5, "running", 2), (9, "idle", 3)] {
            let found = statement.query_map((after, status, limit), |row| row.get::<_, i64>(0))?;
            found.collect::<rusqlite::Result<Vec<_>>>()?;
        }
        Ok(statement.get_status(StatementStatus::RePrepare))
    };
    assert_eq!(store.writer.write(prepared_again).await.unwrap(), 0);
}

/// However much else is stored. There are no table statistics, as in all our databases.
#[tokio::test]
async fn what_is_looked_for_all_the_time_is_found_by_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    for (sql, index) in [
        (leases::DUE, "threads_by_wake"),
        (leases::CLAIMABLE, "threads_by_wake (wake_at<?)"),
        (leases::CLAIMABLE, "threads_running"),
        (leases::CRASHES, "sqlite_autoindex_crashes_1 (pk=?)"),
        (idempotency::FORGET, "idempotency_by_age"),
        (lookups::EXAMINE, "lookup_keys_by_age (created_at>? AND created_at<?)"),
        (lookups::FORGET_EXAMINED, "lookup_keys_1 (tenant=? AND kind=? AND digest=? AND created_at=? AND run_id=?)"),
        (usage::EXAMINE, "rows_used (tenant=? AND ord>? AND ord<?)"),
        (usage::FORGET_EXAMINED, "thread_rows_1 (pk=? AND kind=? AND id=?)"),
        (lookups::NEWEST, "sqlite_autoindex_lookup_keys_1"),
        (outbox::TENANTS_DUE, "deliveries_of_tenants (tenant=? AND due_at>? AND due_at<?)"),
        (outbox::TENANTS_DUE, "deliveries_of_tenants (tenant>?)"),
        (outbox::CLAIM, "deliveries_of_tenants (tenant=? AND due_at>? AND due_at<?)"),
        (outbox::NEXT_SINGLE, "deliveries_of_tenants (tenant=? AND due_at>?)"),
        (outbox::CLAIM_BATCH, "deliveries_to_collectors (due_at>? AND due_at<?)"),
        (outbox::NEXT_BATCHED, "deliveries_to_collectors"),
        (outbox::PENDING_OF_TARGET, "deliveries_of_target (tenant=? AND target_kind=? AND target=? AND ord>?)"),
        (outbox::PUT_OFF, "deliveries_of_lane (lane=?"),
        (sessions::END_FIRST, "sessions_of_holder (key_hash=?)"),
        (sessions::END_ALL, "sessions_of_holder (key_hash=?)"),
        (threads::RECENT, "threads_running"),
        (threads::RUN_COSTS, "rows_paged (pk=? AND kind=? AND ord>?)"),
        (threads::NEWEST, "threads_by_activity (tenant=? AND updated_at<?)"),
        (figures::RUNS, "rows_running"),
        (figures::QUESTIONS, "rows_open"),
        (figures::DELIVERIES, "deliveries_due"),
    ] {
        let plan = plan(&store, sql).await;
        assert!(plan.iter().any(|step| step.contains(index)), "{sql}: {plan:?}");
    }
}

/// Otherwise the recovery after a crash would take a time that grows with the square of them.
#[tokio::test]
async fn the_look_for_threads_without_an_owner_costs_no_more_however_many_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let steps = |tx: &Transaction<'_>, upto: u32, wake_at: Option<i64>| {
        let running = "INSERT INTO threads (pk, tenant, thread_id, core, version, epoch, replica, last_commit, status,
                wake_at, floor, last_seq, min_seq, created_at, updated_at, created_by, title, sheet, head)
            WITH RECURSIVE n (pk) AS (SELECT 1 UNION ALL SELECT pk + 1 FROM n WHERE pk < ?1)
            SELECT pk, 1 + pk % 7, pk, 'pes', 1, 1, 'dead', '', 'running', ?2, 0, 0, 1, pk, pk, '', '', '{}', '{}' FROM n";
        tx.execute("DELETE FROM threads", [])?;
        tx.execute(running, params![upto, wake_at])?;
        let mut look = tx.prepare(leases::CLAIMABLE)?;
        let found = look.query_map(params![9, 256, "this", "lease", MAX_OVERDUE_SCANNED], |_| Ok(()))?.count();
        Ok((found, look.get_status(StatementStatus::VmStep)))
    };
    for wake_at in [None, Some(5)] {
        let few = store.writer.write(move |tx| steps(tx, MAX_OVERDUE_SCANNED, wake_at)).await.unwrap();
        let many = store.writer.write(move |tx| steps(tx, MAX_OVERDUE_SCANNED + 10_000, wake_at)).await.unwrap();
        assert_eq!((few.0, many.0), (256, 256));
        // Those that a search passes over cost a few steps each.
        assert!(many.1 < few.1 + few.1 / 10, "{many:?} after {few:?}");
    }
}

/// However many other rows the tenant has.
#[tokio::test]
async fn what_people_list_is_found_in_its_order_and_counted_by_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let of_thread = "sqlite_autoindex_thread_rows_1 (pk=? AND kind=?)";
    for (sql, index) in [
        (outbox::LIST_OF_TENANT, "deliveries_by_status (tenant=? AND target_kind=? AND status=? AND rowid<?)"),
        (rows::RUNS, "rows_standing (tenant=? AND ord>? AND (ord,id)<(?,?))"),
        (rows::RUNS_OF_STATUS, "rows_by_standing (tenant=? AND body=? AND ord>? AND (ord,id)<(?,?))"),
        (rows::RUNS_OF_THREAD, of_thread),
        (rows::COUNT, "rows_standing (tenant=? AND ord>?)"),
        (rows::COUNT_OF_STATUS, "rows_by_standing (tenant=? AND body=? AND ord>?)"),
        (rows::COUNT_OF_THREAD, of_thread),
        (usage::CALLS, "thread_rows USING INDEX rows_used (tenant=? AND ord>? AND ord<?)"),
        (usage::CALLS, "usage_kept_used (tenant=? AND ord>? AND ord<?)"),
        (usage::CALLS_OF_THREAD, of_thread),
    ] {
        let plan = plan(&store, sql).await;
        assert!(plan.iter().any(|step| step.contains(index)), "{sql}: {plan:?}");
        if [outbox::LIST_OF_TENANT, rows::RUNS, usage::CALLS].contains(&sql) {
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{sql}: {plan:?}");
        }
    }
}

async fn plan(store: &Sqlite, sql: &str) -> Vec<String> {
    let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(&store.readers).await;
    plan.unwrap().iter().map(|row| row.get("detail")).collect()
}

#[tokio::test]
async fn what_people_read_leaves_the_engine_its_connections() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let theirs = store.for_people.as_ref().unwrap();
    let mut held = Vec::new();
    for _ in 0..theirs.options().get_max_connections() {
        held.push(theirs.acquire().await.unwrap());
    }
    assert_eq!(store.thread_by_pk(ThreadPk(1)).await.unwrap(), None);
}

/// A full database still has room for a few bytes: a commit fails, and a small write does not.
#[tokio::test]
async fn a_full_disk_is_noticed_by_whoever_asks_and_so_is_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    store.ping().await.unwrap();
    let limit = async |pages: &str| {
        let pages = pages.to_owned();
        store.writer.write(move |tx| tx.pragma_update(None, "max_page_count", pages)).await.unwrap();
    };
    // No database gets smaller by this: it keeps its size.
    limit("1").await;
    store.ping().await.unwrap();
    let large = Commit { head: Some("x".repeat(100_000)), ..creating(1) };
    assert!(matches!(store.commit(large.clone()).await, Err(Error::Unavailable(why)) if why.contains("full")));
    for _ in 0..2 {
        let Err(Error::Unavailable(why)) = store.ping().await else { panic!("it was written") };
        assert_eq!(why, "there is no room left on its disk; make room (database or disk is full)");
    }
    limit("1000000").await;
    store.ping().await.unwrap();
    assert_eq!(store.commit(large).await.unwrap(), Committed::Done);
}

/// Otherwise commits would be acknowledged and lost: they would be written to a file that no later start finds.
#[tokio::test]
async fn nothing_is_acknowledged_while_the_folder_is_not_where_it_was_opened() {
    let above = tempfile::tempdir().unwrap();
    let [folder, aside] = ["data", "aside"].map(|name| above.path().join(name));
    let store = Sqlite::open(&folder, Synchronous::Normal).await.unwrap();
    let refused = |answer: Result<(), Error>, file: &str| {
        let told = answer.unwrap_err().to_string();
        let gone = format!(
            "the store is not available: {file} is no longer where it was opened: it or its folder was removed"
        );
        assert!(told.starts_with(&gone), "{told}");
    };
    std::fs::rename(&folder, &aside).unwrap();
    refused(store.ping().await, "pes.lock");
    refused(store.commit(creating(1)).await.map(drop), "pes.lock");
    // A file of the same name is another file.
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("pes.db"), "another").unwrap();
    std::fs::hard_link(aside.join("pes.lock"), folder.join("pes.lock")).unwrap();
    refused(store.commit(creating(1)).await.map(drop), "pes.db");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.commit(creating(1)).await.unwrap(), Committed::Done);
    std::fs::remove_file(folder.join("pes.lock")).unwrap();
    refused(store.ping().await, "pes.lock");
}

/// Otherwise commits would be acknowledged and lost: they would be written to a file that no later start finds.
#[tokio::test]
async fn nothing_is_acknowledged_while_the_log_is_not_where_it_was_opened_and_what_was_is_in_the_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let [log, aside] = ["pes.db-wal", "aside"].map(|name| folder.path().join(name));
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let refused = async |pk: i64| {
        for answer in [store.ping().await, store.commit(creating(pk)).await.map(drop)] {
            let told = answer.unwrap_err().to_string();
            let gone = "the store is not available: pes.db-wal is no longer where it was opened";
            assert!(told.starts_with(gone), "{told}");
        }
    };
    assert_eq!(store.commit(creating(1)).await.unwrap(), Committed::Done);
    std::fs::rename(&log, &aside).unwrap();
    refused(2).await;
    // As after kill -9 without the log.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("pes.db"), copy.path().join("pes.db")).unwrap();
    let copied = Sqlite::open(copy.path(), Synchronous::Normal).await.unwrap();
    assert!(copied.thread_by_pk(ThreadPk(1)).await.unwrap().is_some());
    // A file of the same name is another file, also to a connection that is opened later.
    std::fs::write(&log, "").unwrap();
    super::Writer::close(&store.writer).await;
    refused(2).await;
    std::fs::rename(&aside, &log).unwrap();
    assert_eq!(store.commit(creating(2)).await.unwrap(), Committed::Done);
    // SQLite itself removes the log with the last connection.
    super::Writer::close(&store.writer).await;
    assert_eq!(store.commit(creating(3)).await.unwrap(), Committed::Done);
}

/// The reader needs the log, so not all of it can be copied.
#[tokio::test]
async fn a_reader_of_a_log_that_is_missing_keeps_no_refusal_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let reader = rusqlite::Connection::open(folder.path().join("pes.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM threads").unwrap();
    assert_eq!(store.commit(creating(1)).await.unwrap(), Committed::Done);
    std::fs::rename(folder.path().join("pes.db-wal"), folder.path().join("aside")).unwrap();
    let refused = tokio::time::timeout(super::open::BUSY_TIMEOUT / 2, store.commit(creating(2))).await;
    assert!(matches!(refused, Ok(Err(Error::Unavailable(_)))), "{refused:?}");
}

/// As on a disk that is full once its log is written. Otherwise it would get its name without what only its log has.
#[tokio::test]
async fn a_database_that_is_made_while_its_log_cannot_be_emptied_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, new) = (folder.path().join("pes.db"), folder.path().join("pes.db.new"));
    let reader = rusqlite::Connection::open(&new).unwrap();
    reader.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a); BEGIN; SELECT count(*) FROM t").unwrap();
    let options = SqliteConnectOptions::new().filename(&new).busy_timeout(Duration::ZERO);
    let Err(Error::Unusable(why)) = super::schema::create(&path, &options).await else { panic!("it was made") };
    assert!(why.ends_with("pes.db cannot be used: another process reads it while it is made."), "{why}");
    reader.execute_batch("COMMIT").unwrap();
    super::schema::create(&path, &options).await.unwrap();
    assert_eq!(folder.path().join("pes.db.new-wal").metadata().unwrap().len(), 0);
}

/// The durability of an acknowledged commit, also over a reopened connection.
#[tokio::test]
async fn commits_wait_for_the_disk_as_configured_however_often_the_connection_is_opened() {
    for (synchronous, expected) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path(), synchronous).await.unwrap();
        for _ in 0..2 {
            let settings = |tx: &Transaction<'_>| {
                let synchronous: i64 = tx.pragma_query_value(None, "synchronous", |row| row.get(0))?;
                let journal: String = tx.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
                Ok((synchronous, journal))
            };
            assert_eq!(store.writer.write(settings).await.unwrap(), (expected, "wal".to_owned()));
            super::Writer::close(&store.writer).await;
        }
    }
}

#[tokio::test]
async fn a_write_that_fails_or_panics_leaves_nothing_and_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let beat = |tx: &Transaction<'_>| tx.execute(super::BEAT, [0]);
    let failed = store.writer.write(move |tx| beat(tx).and_then(|_| tx.execute("no statement", []))).await;
    assert!(matches!(failed, Err(Error::Refused(_))), "{failed:?}");
    let panicked = store.writer.write(move |tx| beat(tx).map(|_| panic!("a defect"))).await;
    assert!(matches!(panicked, Err::<(), _>(Error::Unavailable(_))), "{panicked:?}");
    let beats = |tx: &Transaction<'_>| tx.query_row("SELECT count(*) FROM pulse", [], |row| row.get::<_, i64>(0));
    assert_eq!(store.writer.write(beats).await.unwrap(), 0);
    assert_eq!(store.commit(creating(1)).await.unwrap(), Committed::Done);
}

#[tokio::test]
async fn a_write_goes_on_when_its_caller_walks_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let write = store.writer.write(move |tx| {
        gate.recv().expect("it is let go");
        tx.execute(super::BEAT, [0])
    });
    let mut write = Box::pin(write);
    assert!(futures_util::poll!(&mut write).is_pending());
    drop(write);
    go.send(()).unwrap();
    let beats = |tx: &Transaction<'_>| tx.query_row("SELECT count(*) FROM pulse", [], |row| row.get::<_, i64>(0));
    assert_eq!(store.writer.write(beats).await.unwrap(), 1);
}

#[tokio::test]
async fn what_others_write_is_no_time_of_chores() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    store.ping().await.unwrap();
    store.commit(creating(1)).await.unwrap();
    assert_eq!(store.chores().held_us.load(Ordering::Relaxed), 0);
    store.erase_rows(1).await.unwrap();
    assert!(store.chores().held_us.load(Ordering::Relaxed) > 0);
}
