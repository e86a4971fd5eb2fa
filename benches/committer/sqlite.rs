//! SQLite: group commit, single commits, and bare commits on the same disk.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::store::sqlite::Sqlite;
use sqlx::{Connection, Executor, SqliteConnection};
use tokio::sync::Mutex;

use crate::load::{Rate, THREADS, entry, rate, transition, transitions};
use crate::{Disk, Ratio, report};

pub async fn measure(disk: Disk) -> Vec<Ratio> {
    let raw = raw().await;
    report("SQLite: raw autocommit", 1, &raw);
    let ungrouped = ungrouped(64).await;
    report("SQLite: one transaction per transition", 64, &ungrouped);
    let mut grouped = Vec::new();
    for threads in THREADS {
        let folder = folder();
        let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Full).await.expect("it opens"));
        grouped.push(transitions(store, threads).await);
        report("SQLite: grouped", threads, grouped.last().expect("just measured"));
    }
    match disk {
        Disk::AsItIs => vec![
            Ratio::at_least("SQLite grouped at 64 : ungrouped at 64", &grouped[2], &ungrouped, 3.0),
            Ratio::at_least("SQLite grouped at 64 : raw autocommit", &grouped[2], &raw, 1.5),
            Ratio::at_least("SQLite alone : raw autocommit", &grouped[0], &raw, 0.25),
        ],
        Disk::Slow => vec![Ratio::at_least("SQLite grouped at 64 : raw autocommit", &grouped[2], &raw, 8.0)],
    }
}

/// On the disk of the build, not in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is writable")
}

/// The smallest durable write, in a loop.
async fn raw() -> Rate {
    let folder = folder();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("raw.db").display());
    let mut connection = SqliteConnection::connect(&url).await.expect("it opens");
    for pragma in ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 4000"] {
        connection.execute(pragma).await.expect("a known pragma");
    }
    connection.execute("CREATE TABLE raw (n INTEGER PRIMARY KEY, at INTEGER)").await.expect("an empty database");
    let connection = Arc::new(Mutex::new(connection));
    rate(1, move |_, nth| {
        let connection = connection.clone();
        async move {
            let insert = sqlx::query("INSERT INTO raw (at) VALUES (?)").bind(nth as i64);
            insert.execute(&mut *connection.lock().await).await.expect("it is written");
        }
    })
    .await
}

/// One statement per row and one transaction per transition, on one connection.
async fn ungrouped(threads: usize) -> Rate {
    let folder = folder();
    let path = folder.path().to_owned();
    let store = Sqlite::open(&path, Synchronous::Full).await.expect("it opens");
    pes::store::Store::close(&store).await;
    drop(store);
    let url = format!("sqlite://{}", path.join("pes.db").display());
    let mut connection = SqliteConnection::connect(&url).await.expect("it opens");
    for pragma in ["PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 4000"] {
        connection.execute(pragma).await.expect("a known pragma");
    }
    for pk in 0..threads as i64 {
        let insert = sqlx::query(
            "INSERT INTO threads VALUES (?, 1, ?, 'pes', 1, 0, NULL, NULL, '', 'idle', NULL, 0, 0, 1, 0, 1, 1, '', '{}', '')",
        );
        insert.bind(pk).bind(format!("thr_{pk}")).execute(&mut connection).await.expect("a new thread");
    }
    let connection = Arc::new(Mutex::new(connection));
    let seqs: Arc<Vec<_>> = Arc::new((0..threads).map(|_| std::sync::atomic::AtomicI64::new(0)).collect());
    rate(threads, move |worker, nth| {
        let (connection, seqs) = (connection.clone(), seqs.clone());
        async move {
            let seq = &seqs[worker];
            let mut connection = connection.lock().await;
            let last_seq = seq.load(std::sync::atomic::Ordering::Relaxed);
            let commit = transition(pes::domain::ids::ThreadPk(worker as i64), nth, nth as i64 + 1, last_seq);
            one_by_one(&mut connection, &commit).await.expect("it is written");
            seq.store(last_seq + commit.records.len() as i64, std::sync::atomic::Ordering::Relaxed);
        }
    })
    .await
}

async fn one_by_one(connection: &mut SqliteConnection, commit: &pes::store::Commit) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let update = sqlx::query(
        "UPDATE threads SET version = version + 1, last_seq = last_seq + ?, head = ? WHERE pk = ? AND version = ?",
    );
    let update = update.bind(commit.records.len() as i64).bind(&commit.head);
    let updated = update.bind(commit.pk.0).bind(commit.fence.version).execute(&mut *transaction).await?;
    assert_eq!(updated.rows_affected(), 1);
    for row in &commit.rows {
        let upsert = sqlx::query(
            "INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body) VALUES (?, 1, ?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body",
        );
        let upsert = upsert.bind(commit.pk.0).bind(row.kind.code()).bind(&row.id).bind(row.ord);
        upsert.bind(row.keep.code()).bind(&row.body).execute(&mut *transaction).await?;
    }
    let (types, body) = entry(commit);
    let insert = sqlx::query("INSERT INTO observations (pk, seq, types, body) VALUES (?, ?, ?, ?)");
    let insert = insert.bind(commit.pk.0).bind(commit.last_seq + commit.records.len() as i64).bind(types).bind(body);
    insert.execute(&mut *transaction).await?;
    transaction.commit().await
}
