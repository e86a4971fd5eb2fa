//! The p99 of commits while a deleted thread of a million observations is removed, and without that chore, in alternating
//! turns.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::store::sqlite::Sqlite;
use pes::store::{ErasureStore, Pace};
use sqlx::{Connection, SqliteConnection};

use crate::load::{Rate, transitions};
use crate::{Bound, Ratio, report};

const THREADS: usize = 64;
const TURNS: usize = 3;
/// The batch size that the server uses.
const BATCH: u32 = 500;

const BACKLOG: &str = "
WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 1000000)
INSERT INTO observations (pk, seq, types, body) SELECT 7, seq, 'INTENT', printf('%0200d', seq) FROM n;
INSERT INTO erased_threads (pk, erased_at, is_empty) VALUES (7, 1, 0);
PRAGMA wal_checkpoint(truncate)";

pub async fn measure() -> Vec<Ratio> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is writable");
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Full).await.expect("it opens"));
    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut connection = SqliteConnection::connect(&url).await.expect("it opens");
    sqlx::raw_sql(BACKLOG).execute(&mut connection).await.expect("there is room");
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        alone.push(transitions(store.clone(), THREADS).await);
        let chore = tokio::spawn(remove(store.clone()));
        beside.push(transitions(store.clone(), THREADS).await);
        chore.abort();
    }
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM observations WHERE pk = 7")
        .fetch_one(&mut connection)
        .await
        .expect("it is read");
    assert!((1..1_000_000).contains(&left), "the chore worked, and was not done: {left}");
    report("SQLite: grouped, no chore", THREADS, best(&alone));
    report("SQLite: grouped, a million rows removed beside", THREADS, best(&beside));
    let value = best(&beside).p99_ms / best(&alone).p99_ms;
    vec![Ratio { name: "SQLite p99 of commits beside a chore : without", value, bound: Bound::AtMost(1.2) }]
}

async fn remove(store: Arc<Sqlite>) {
    loop {
        let pace = Pace::begin();
        store.erase_rows(BATCH).await.expect("the store answers");
        pace.rest(&*store).await;
    }
}

/// The turn with the least interference of other programs.
fn best(turns: &[Rate]) -> &Rate {
    turns.iter().min_by(|one, other| one.p99_ms.total_cmp(&other.p99_ms)).expect("there were turns")
}
