//! What only a SQLite folder has: a lock, a file that outlives the process, a schema that may be too new.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::observation::ObservationType;
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::sqlite::Sqlite;
use pes::store::{Commit, Committed, Error, LeaseChange, Store};
use sqlx::{Connection, Executor};
use uuid::Uuid;

use super::bed::{Bed, record, row};
use crate::support::together;

async fn opened(folder: &Path) -> Bed {
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder, Synchronous::Full).await.unwrap());
    Bed::on(store, Arc::new(())).await
}

/// Another program that reads or changes the data.
async fn connected(folder: &Path) -> sqlx::SqliteConnection {
    let url = format!("sqlite://{}", folder.join("pes.db").display());
    sqlx::SqliteConnection::connect(&url).await.unwrap()
}

fn unusable(result: Result<Sqlite, Error>) -> String {
    match result.err().expect("it must not open") {
        Error::Unusable(sentence) => sentence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_restart_keeps_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let pk = bed.thread("t1").await;
    for n in 0..5 {
        let records = vec![record(&format!("o{n}"), ObservationType::Intent, "r")];
        bed.done(Commit { records, idempotency: Some(bed.key(&format!("k{n}"))), ..bed.next(pk).await }).await;
    }
    let before = bed.everything(pk).await;
    bed.store.close().await;
    drop(bed);

    let bed = opened(folder.path()).await;
    assert_eq!(bed.everything(pk).await, before);
    assert!(bed.store.idempotency(bed.tenant, "POST /threads", "k4").await.unwrap().is_some());
}

#[tokio::test]
async fn whoever_registers_takes_over_everything() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let (old, new) = (Uuid::new_v4(), Uuid::new_v4());
    bed.register(old, 60_000).await;
    let pk = bed.thread("t1").await;
    let lease = LeaseChange::Claim { lease: Uuid::new_v4(), replica: old };
    bed.done(Commit { lease, status: ThreadStatus::Running, ..bed.next(pk).await }).await;
    assert_eq!(bed.claimable(1000, 9).await, []);
    bed.register(new, 60_000).await;
    assert_eq!(bed.claimable(1000, 9).await, [pk]);
    assert!(!bed.read(pk).await.is_owned);
    assert!(!bed.store.renew(old, 60_000).await.unwrap().is_renewed());
}

/// A page in the log of the database.
const FRAME: u64 = 24 + 4096;

/// The synced bytes determine the cost of a commit. An index is written whenever its columns are set, changed or not.
#[tokio::test]
async fn a_commit_that_changes_no_index_writes_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let replica = Uuid::new_v4();
    bed.register(replica, 60_000).await;
    let pk = bed.thread("t1").await;
    let lease = LeaseChange::Claim { lease: Uuid::new_v4(), replica };
    bed.done(Commit { lease, status: ThreadStatus::Running, wake_at: Some(9), ..bed.next(pk).await }).await;
    let log = folder.path().join("pes.db-wal");
    let before = log.metadata().unwrap().len();
    bed.done(Commit { head: Some("{}".to_owned()), ..bed.next(pk).await }).await;
    assert_eq!(log.metadata().unwrap().len() - before, FRAME);
}

/// A run is in five indexes, and its body in none.
#[tokio::test]
async fn a_row_of_which_only_the_body_changes_is_written_without_its_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let pk = bed.thread("t1").await;
    let log = folder.path().join("pes.db-wal");
    let mut frames = Vec::new();
    for (ord, keep, body) in [(1, Keep::Always, "1"), (1, Keep::Always, "2"), (2, Keep::Never, "3")] {
        let before = log.metadata().unwrap().len();
        let run = Row { body: body.to_owned(), ..row(RowKind::Run, "run_1", ord, keep) };
        bed.write(pk, vec![run.clone()]).await;
        frames.push((log.metadata().unwrap().len() - before) / FRAME);
        assert_eq!(bed.store.row(pk, RowKind::Run, "run_1").await.unwrap(), Some(run));
    }
    // The thread and the row; then rows_kept, rows_paged and rows_running, too.
    assert_eq!(frames[1..], [2, 5]);
}

#[tokio::test]
async fn a_folder_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let sentence = unusable(Sqlite::open(folder.path(), Synchronous::Full).await);
    assert!(sentence.contains(&format!("held by process {}", std::process::id())), "{sentence}");
    assert!(sentence.contains("PES_DATA_DIR"), "{sentence}");
    bed.store.close().await;
    drop(bed);
    opened(folder.path()).await;
}

#[tokio::test]
async fn a_refused_value_fails_its_own_commit() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let mut other = connected(folder.path()).await;
    let trigger = "CREATE TRIGGER picky BEFORE INSERT ON observations WHEN new.body LIKE '%poison%'
        BEGIN SELECT RAISE(ABORT, 'no poison here'); END";
    other.execute(trigger).await.unwrap();
    let mut commits = Vec::new();
    for n in 0..9 {
        let id = if n == 4 { "poison".to_owned() } else { format!("o{n}") };
        let records = vec![record(&id, ObservationType::Intent, "r")];
        let pk = bed.thread(&format!("t{n}")).await;
        commits.push(Commit { records, ..bed.next(pk).await });
    }
    let answers = together(commits.into_iter().map(|commit| {
        let bed = bed.clone();
        async move { (commit.pk, bed.store.commit(commit).await) }
    }))
    .await;
    for (n, (pk, answer)) in answers.into_iter().enumerate() {
        match answer {
            Err(Error::Refused(why)) => assert!(n == 4 && why.contains("no poison"), "{n}: {why}"),
            other => assert!(n != 4 && matches!(other, Ok(Committed::Done)), "{n}: {other:?}"),
        }
        assert_eq!(bed.observations(pk).await.len(), usize::from(n != 4));
    }
}

#[tokio::test]
async fn a_schema_that_newer_versions_added_to_is_used_and_one_they_took_from_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    bed.store.close().await;
    drop(bed);
    let path = folder.path().join("pes.db");
    let mut other = connected(folder.path()).await;
    other
        .execute(
            "INSERT INTO _sqlx_migrations SELECT 9999, 'from the future', installed_on, success, checksum,
             execution_time FROM _sqlx_migrations LIMIT 1;
             ALTER TABLE tenants ADD COLUMN from_the_future TEXT",
        )
        .await
        .unwrap();
    let older = opened(folder.path()).await;
    older.thread("t1").await;
    older.store.close().await;
    drop(older);
    other.execute("UPDATE schema_floor SET least = 9999").await.unwrap();
    other.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let sentence = unusable(Sqlite::open(folder.path(), Synchronous::Full).await);
    assert!(sentence.contains("schema 9999") && sentence.contains("newer pes"), "{sentence}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pes.db");
    std::fs::write(
        &path,
        "my shopping list, much longer than one hundred bytes so that it cannot pass for an empty file ……",
    )
    .unwrap();
    let sentence = unusable(Sqlite::open(folder.path(), Synchronous::Full).await);
    assert!(sentence.contains("pes.db cannot be used"), "{sentence}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("my shopping list"));
}

#[tokio::test]
async fn what_is_stored_is_for_its_owner_alone() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    let bed = opened(&folder).await;
    bed.thread("t").await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    bed.store.close().await;
    drop(bed);
    std::fs::set_permissions(folder.join("pes.db"), Permissions::from_mode(0o644)).unwrap();
    let bed = opened(&folder).await;
    assert_eq!(mode(&folder.join("pes.db")), 0o600, "an older one is taken from the others");
    bed.store.close().await;
}
