//! PostgreSQL: group commit, one transaction per transition on 16 connections, and bare commits on the same cluster.

#[path = "../../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster;

use std::sync::Arc;

use cluster::{Cluster, Database};
use pes::domain::ids::ThreadPk;
use pes::store::postgres::Postgres;
use pes::store::{Commit, Committed, Store};
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::Mutex;

use crate::load::{Rate, THREADS, entry, payload, rate, threads, transition, transitions};
use crate::{Bound, Disk, Ratio, report};

const CONNECTIONS: usize = 16;
const SETTINGS: &[&str] =
    &["fsync=on", "synchronous_commit=on", "max_wal_size=8GB", "shared_buffers=256MB", "max_connections=100"];

pub async fn measure(disk: Disk) -> Vec<Ratio> {
    let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(SETTINGS)));
    let raw = raw(&cluster.database().await).await;
    report("PostgreSQL: raw commits, 1 connection", 1, &raw);
    let mut ungrouped = Vec::new();
    for threads in [64, 256] {
        ungrouped.push(one_each(&cluster.database().await, threads).await);
        report("PostgreSQL: one transaction each, 16 connections", threads, &ungrouped[ungrouped.len() - 1]);
    }
    let mut grouped = Vec::new();
    for threads in THREADS {
        let database = cluster.database().await;
        let store = Arc::new(Postgres::open(&database.url().into(), 4).await.expect("it opens"));
        grouped.push(transitions(store, threads).await);
        report("PostgreSQL: grouped", threads, &grouped[grouped.len() - 1]);
    }
    match disk {
        Disk::AsItIs => vec![
            Ratio::at_least("PostgreSQL grouped at 64 : one transaction each", &grouped[2], &ungrouped[0], 3.5),
            Ratio::at_least("PostgreSQL grouped at 256 : one transaction each", &grouped[3], &ungrouped[1], 4.5),
            Ratio::at_least("PostgreSQL grouped at 64 : raw commits", &grouped[2], &raw, 3.5),
            Ratio::at_least("PostgreSQL alone : raw commits", &grouped[0], &raw, 0.3),
            Ratio {
                name: "PostgreSQL: bytes of WAL : bytes of payload",
                value: wal(&cluster.database().await).await,
                bound: Bound::AtMost(1.15),
            },
        ],
        Disk::Slow => vec![Ratio::at_least("PostgreSQL grouped at 64 : raw commits", &grouped[2], &raw, 8.0)],
    }
}

/// The growth of the WAL while 64 threads make 100 transitions each, relative to their payload.
async fn wal(database: &Database) -> f64 {
    let store: Arc<dyn Store> = Arc::new(Postgres::open(&database.url().into(), 4).await.expect("it opens"));
    let threads = threads(&store, 64).await;
    let mut watcher = database.connect().await;
    watcher.execute("CHECKPOINT").await.expect("the cluster is ours");
    let position = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8";
    let before: f64 = sqlx::query_scalar(position).fetch_one(&mut watcher).await.expect("it answers");
    let mut bytes = 0;
    for nth in 0..100 {
        let last_seq: i64 = (0..nth).map(|nth| transition(threads[0], nth, 0, 0).records.len() as i64).sum();
        let commits: Vec<_> = threads.iter().map(|pk| transition(*pk, nth, nth as i64 + 1, last_seq)).collect();
        bytes += commits.iter().map(payload).sum::<usize>();
        let outcomes = futures_util::future::join_all(commits.into_iter().map(|commit| store.commit(commit))).await;
        assert!(outcomes.into_iter().all(|outcome| matches!(outcome, Ok(Committed::Done))));
    }
    let after: f64 = sqlx::query_scalar(position).fetch_one(&mut watcher).await.expect("it answers");
    (after - before) / bytes as f64
}

/// The smallest durable write, in a loop.
async fn raw(database: &Database) -> Rate {
    let mut connection = database.connect().await;
    connection.execute("CREATE TABLE raw (n bigint)").await.expect("an empty database");
    let connection = Arc::new(Mutex::new(connection));
    rate(1, move |_, nth| {
        let connection = connection.clone();
        async move {
            let insert = sqlx::query("INSERT INTO raw (n) VALUES ($1)").bind(nth as i64);
            insert.execute(&mut *connection.lock().await).await.expect("it is written");
        }
    })
    .await
}

async fn one_each(database: &Database, threads: usize) -> Rate {
    Postgres::open(&database.url().into(), 1).await.expect("it migrates");
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Mutex::new(database.connect().await));
    }
    for pk in 0..threads as i64 {
        let insert = sqlx::query(
            "INSERT INTO threads (pk, tenant, version, epoch, floor, last_seq, min_seq, created_at, updated_at,
                 status, core, thread_id, commits, title, sheet, head)
             VALUES ($1, 1, 1, 0, 0, 0, 1, 1, 1, 'idle', 'pes', $2, '{}', '', '{}', '')",
        );
        let insert = insert.bind(pk).bind(format!("thr_{pk}"));
        insert.execute(connections[0].get_mut()).await.expect("a new thread");
    }
    let connections = Arc::new(connections);
    let seqs: Arc<Vec<_>> = Arc::new((0..threads).map(|_| Mutex::new(0)).collect());
    rate(threads, move |worker, nth| {
        let (connections, seqs) = (connections.clone(), seqs.clone());
        async move {
            let mut seq = seqs[worker].lock().await;
            let commit = transition(ThreadPk(worker as i64), nth, nth as i64 + 1, *seq);
            let mut connection = connections[worker % CONNECTIONS].lock().await;
            one_by_one(&mut connection, &commit).await.expect("it is written");
            *seq += commit.records.len() as i64;
        }
    })
    .await
}

async fn one_by_one(connection: &mut PgConnection, commit: &Commit) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    let update = sqlx::query(
        "UPDATE threads SET version = version + 1, last_seq = last_seq + $1, head = $2 WHERE pk = $3 AND version = $4",
    );
    let update = update.bind(commit.records.len() as i64).bind(&commit.head);
    let updated = update.bind(commit.pk.0).bind(commit.fence.version).execute(&mut *transaction).await?;
    assert_eq!(updated.rows_affected(), 1);
    for row in &commit.rows {
        let upsert = sqlx::query(
            "INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body) VALUES ($1, 1, $2, $3, $4, $5, $6)
             ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body",
        );
        let upsert = upsert.bind(commit.pk.0).bind(row.kind.code()).bind(&row.id).bind(row.ord);
        upsert.bind(row.keep.code()).bind(&row.body).execute(&mut *transaction).await?;
    }
    let (types, body) = entry(commit);
    let insert = sqlx::query("INSERT INTO observations (pk, seq, types, body) VALUES ($1, $2, $3, $4)");
    let insert = insert.bind(commit.pk.0).bind(commit.last_seq + commit.records.len() as i64).bind(types).bind(body);
    insert.execute(&mut *transaction).await?;
    transaction.commit().await
}
