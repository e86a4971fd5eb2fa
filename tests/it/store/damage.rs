//! Data folders after crashes and accidents: a start continues after a crash, and refuses a damaged folder.

use std::path::{Path, PathBuf};

use pes::config::Synchronous;
use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::store::sqlite::{self, DatabaseAction, Sqlite};
use pes::store::{Commit, Committed, Compaction, Error, ObservationAsk};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, Executor};
use tempfile::TempDir;

use super::bed::{Bed, record};
use crate::support::together;

const FILES: [&str; 4] = ["pes.db", "pes.db-wal", "pes.db-shm", "pes.db-journal"];

async fn opened(folder: &Path) -> Bed {
    let store = Sqlite::open(folder, Synchronous::Full).await.unwrap_or_else(|error| panic!("{error}"));
    Bed::on(std::sync::Arc::new(store), std::sync::Arc::new(())).await
}

async fn refused(folder: &Path, expected: &[&str]) {
    let before = everything(folder);
    says(Sqlite::open(folder, Synchronous::Full).await.err(), expected);
    assert_eq!(everything(folder), before, "nothing may be touched");
}

/// That commands which need no server refuse the folder, too.
async fn refused_by_commands(folder: &Path, expected: &[&str]) {
    let before = everything(folder);
    says(Sqlite::open_beside(folder, Synchronous::Full).await.err(), expected);
    let copy = folder.join("copy.db");
    let act = DatabaseAction { by: "test", at: 1, detail: json!({}) };
    says(sqlite::back_up(folder, Synchronous::Full, &copy, &act).await.err(), expected);
    assert_eq!(everything(folder), before, "nothing may be touched");
    assert!(!copy.exists());
}

fn says(refusal: Option<Error>, expected: &[&str]) {
    match refusal {
        Some(Error::Unusable(why)) => {
            assert!(expected.iter().all(|part| why.contains(part)), "{why}\nlacks one of {expected:?}");
            assert!(!why.contains('\n'), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

fn everything(folder: &Path) -> Vec<Option<Vec<u8>>> {
    ["pes.db", "pes.db-wal"].iter().map(|name| std::fs::read(folder.join(name)).ok()).collect()
}

/// A copy of the folder as on the disk if the process were killed now.
fn image(folder: &Path) -> TempDir {
    let image = tempfile::tempdir().unwrap();
    for name in FILES {
        match std::fs::copy(folder.join(name), image.path().join(name)) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }
    image
}

/// A folder whose process was killed after eight commits to the thread `t`, and the size of its write-ahead log.
async fn killed() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let bed = opened(folder.path()).await;
    let pk = bed.thread("t").await;
    for n in 0..8 {
        let records = vec![record(&format!("o{n}"), ObservationType::Intent, "r")];
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    let image = image(folder.path());
    let log = image.path().join("pes.db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    (image, log)
}

/// The same, closed cleanly: everything is in the database file.
async fn closed() -> (TempDir, PathBuf) {
    let (folder, _) = killed().await;
    opened(folder.path()).await.store.close().await;
    let database = folder.path().join("pes.db");
    (folder, database)
}

async fn last_seq(bed: &Bed) -> i64 {
    bed.store.thread(bed.tenant, &"t".into()).await.unwrap().expect("the thread is there").last_seq
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn what_a_kill_leaves_is_gone_on_with() {
    let (folder, _) = killed().await;
    assert_eq!(last_seq(&opened(folder.path()).await).await, 8);
    // In the middle of a write that was not acknowledged.
    let (folder, log) = killed().await;
    change(&log, |log| log.truncate(log.len() - 1000));
    assert_eq!(last_seq(&opened(folder.path()).await).await, 7);
}

#[tokio::test]
async fn an_empty_database_is_refused() {
    let (folder, database) = closed().await;
    std::fs::write(&database, "").unwrap();
    refused(folder.path(), &["pes.db", "it is empty", "backup"]).await;
}

#[tokio::test]
async fn a_database_that_is_none_is_refused_with_what_to_do() {
    let (folder, database) = closed().await;
    std::fs::write(&database, "x".repeat(8_192)).unwrap();
    refused(folder.path(), &["pes.db", "restore the data folder from a backup"]).await;
}

#[tokio::test]
async fn a_folder_that_is_none_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let Some(Error::Unusable(why)) = Sqlite::open(&file, Synchronous::Full).await.err() else { panic!("it opened") };
    assert!(why.contains("it is no folder; name one with PES_DATA_DIR"), "{why}");
}

#[tokio::test]
async fn a_database_of_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("pes.db")).create_if_missing(true);
    let mut other = options.connect().await.unwrap();
    other.execute("CREATE TABLE recipes (name TEXT)").await.unwrap();
    other.close().await.unwrap();
    refused(folder.path(), &["no data of pes"]).await;
}

#[tokio::test]
async fn a_log_of_garbage_is_refused() {
    let (folder, log) = killed().await;
    change(&log, |log| log.fill(0xA5));
    refused(folder.path(), &["pes.db-wal", "acknowledged last is lost", "backup"]).await;
    std::fs::remove_file(&log).unwrap();
    opened(folder.path()).await;
}

#[tokio::test]
async fn a_log_that_is_broken_before_its_last_commit_is_refused() {
    let (folder, log) = killed().await;
    change(&log, |log| log[32 + 24 + 100] ^= 1);
    refused(folder.path(), &["pes.db-wal", "broken in the middle"]).await;
}

#[tokio::test]
async fn a_log_without_its_database_is_refused() {
    let (folder, _) = killed().await;
    std::fs::remove_file(folder.path().join("pes.db")).unwrap();
    refused(folder.path(), &["it is gone", "pes.db-wal is there"]).await;
}

#[tokio::test]
async fn a_database_that_is_cut_off_is_refused() {
    for cut in [1, 4096, 3 * 4096] {
        let (folder, database) = closed().await;
        change(&database, |bytes| bytes.truncate(bytes.len() - cut));
        refused(folder.path(), &["it is cut off", "is missing", "backup"]).await;
    }
}

/// SQLite takes what is left of such a log for all of it, and removes the log when the last connection is closed: after a
/// backup or a verification a start would find nothing wrong.
#[tokio::test]
async fn a_folder_that_a_start_refuses_is_neither_backed_up_nor_verified() {
    let (folder, log) = killed().await;
    change(&log, |log| log[32 + 24 + 100] ^= 1);
    refused_by_commands(folder.path(), &["pes.db-wal", "broken in the middle"]).await;
    change(&log, |log| log.fill(0xA5));
    refused_by_commands(folder.path(), &["pes.db-wal", "acknowledged last is lost", "backup"]).await;
    let (folder, database) = closed().await;
    change(&database, |bytes| bytes.truncate(bytes.len() - 4096));
    refused_by_commands(folder.path(), &["it is cut off", "is missing", "backup"]).await;
}

/// A process was killed while it wrote to a database with a rollback journal.
#[tokio::test]
async fn what_was_half_written_is_taken_back() {
    let (folder, database) = closed().await;
    let options = SqliteConnectOptions::new().filename(&database).journal_mode(SqliteJournalMode::Delete);
    let mut other = options.pragma("cache_size", "2").connect().await.unwrap();
    other
        .execute(
            "BEGIN IMMEDIATE; UPDATE threads SET last_seq = 99; CREATE TABLE half AS
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             SELECT i, hex(zeroblob(100)) FROM n",
        )
        .await
        .unwrap();
    let image = image(folder.path());
    assert!(image.path().join("pes.db-journal").metadata().unwrap().len() > 0);
    // Its first page may already refer to pages that were never written.
    let file = image.path().join("pes.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let pages = u32::from_be_bytes(bytes[28..32].try_into().unwrap());
    bytes[28..32].copy_from_slice(&(pages + 1_000).to_be_bytes());
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(last_seq(&opened(image.path()).await).await, 8);
}

#[tokio::test]
async fn a_first_start_that_was_killed_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["pes.db.new", "pes.db.new-wal", "pes.db.new-journal"] {
        std::fs::write(folder.path().join(name), "half of something").unwrap();
    }
    opened(folder.path()).await.store.close().await;
    let mut left: Vec<_> = folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["pes.db", "pes.lock"]);
}

/// A store on a database whose log of the thread is damaged, and the thread. The health check writes to another table,
/// which is intact.
async fn opened_with_damaged_log() -> (TempDir, Bed, ThreadPk) {
    let (folder, database) = closed().await;
    let mut connection = SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    let root = sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'observations'");
    let root: i64 = root.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let end = usize::try_from(root).unwrap() * 4096;
    change(&database, |bytes| bytes[end - 4096..end].fill(0xA5));
    let bed = opened(folder.path()).await;
    bed.store.ping().await.unwrap();
    let pk = bed.store.thread(bed.tenant, &"t".into()).await.unwrap().expect("the thread is there").pk;
    (folder, bed, pk)
}

fn tells_of_damage(answer: Result<(), Error>) {
    let Err(Error::Unusable(why)) = answer else { panic!("{answer:?}") };
    let told = "the database is damaged (database disk image is malformed); stop the server and restore the data folder \
                from a backup";
    assert_eq!(why, told);
}

#[tokio::test]
async fn a_server_that_finds_its_database_damaged_is_not_well_any_more() {
    let (_folder, bed, pk) = opened_with_damaged_log().await;
    let records = vec![record("o8", ObservationType::Intent, "r")];
    let commit = Commit { records, ..bed.next(pk).await };
    for answer in [bed.store.commit(commit).await.map(drop), bed.store.ping().await, bed.store.ping().await] {
        tells_of_damage(answer);
    }
}

#[tokio::test]
async fn of_commits_that_are_sent_together_only_the_one_that_meets_damage_fails() {
    let (_folder, bed, pk) = opened_with_damaged_log().await;
    let mut commits = vec![Commit { records: vec![record("o8", ObservationType::Intent, "r")], ..bed.next(pk).await }];
    for n in 0..8 {
        let other = bed.thread(&format!("other {n}")).await;
        commits.push(bed.next(other).await);
    }
    let commit = |commit: Commit| {
        let store = bed.store.clone();
        async move { store.commit(commit).await }
    };
    let mut answers = together(commits.into_iter().map(commit)).await.into_iter();
    tells_of_damage(answers.next().expect("there is one for each").map(drop));
    assert!(answers.all(|answer| matches!(answer, Ok(Committed::Done))));
}

#[tokio::test]
async fn a_server_that_finds_its_database_damaged_outside_of_a_commit_is_not_well_any_more() {
    let (_folder, bed, pk) = opened_with_damaged_log().await;
    let ask = ObservationAsk { limit: 9, ..ObservationAsk::default() };
    let read = bed.store.observations(pk, &ask).await;
    assert!(matches!(read, Err(Error::Damaged(_))), "{read:?}");
    tells_of_damage(bed.store.ping().await);

    let (_folder, bed, pk) = opened_with_damaged_log().await;
    let version = bed.read(pk).await.fence.version;
    tells_of_damage(bed.store.delete_thread(bed.erasure(pk, version)).await.map(drop));
    tells_of_damage(bed.store.ping().await);

    let (_folder, bed, pk) = opened_with_damaged_log().await;
    let shorter = Compaction { thread: pk, min_seq: 1, upto: 3, base: "{}".to_owned(), unnamed: Vec::new() };
    assert!(bed.store.compact(shorter).await.unwrap());
    tells_of_damage(bed.store.drop_entries(pk, 3).await.map(drop));
    tells_of_damage(bed.store.ping().await);
}

/// The lock of the folder would not keep a server of another folder from it.
#[tokio::test]
async fn a_database_with_another_name_is_refused() {
    let (folder, database) = closed().await;
    let other = folder.path().join("other.db");
    std::fs::hard_link(&database, &other).unwrap();
    refused(folder.path(), &["pes.db", "a hard link", "remove that name"]).await;
    std::fs::remove_file(&database).unwrap();
    std::os::unix::fs::symlink(&other, &database).unwrap();
    refused(folder.path(), &["pes.db", "it is a symbolic link", "PES_DATA_DIR"]).await;
    std::fs::remove_file(&other).unwrap();
    refused(folder.path(), &["pes.db", "it is a symbolic link"]).await;
}

/// A container makes one where a file was to be mounted that is not there.
#[tokio::test]
async fn a_folder_in_the_place_of_the_database_is_refused_as_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pes.db")).unwrap();
    refused(folder.path(), &["pes.db", "it is a folder", "PES_DATA_DIR"]).await;
}
