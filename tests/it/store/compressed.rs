//! A log that is compressed from a moment on: both forms are read, and older programs can use the database no more.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::facts::{Fact, IntentBody};
use pes::domain::ids::ThreadPk;
use pes::domain::observation::{ObservationType, Record};
use pes::store::sqlite::Sqlite;
use pes::store::{Commit, ObservationAsk, Store};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};
use tempfile::TempDir;
use uuid::Uuid;

use super::bed::{Bed, record};
use crate::support::postgres::Database;
use crate::support::store::{migrated, store_on};

/// How many entries are stored as text, how many compressed, and the bytes of the former and of the latter.
const FORMS: &str = "
SELECT count(*) FILTER (WHERE compressed IS NULL), count(*) FILTER (WHERE compressed IS NOT NULL),
    coalesce(sum(length(body)) FILTER (WHERE compressed IS NULL), 0),
    coalesce(sum(length(body) + length(compressed)) FILTER (WHERE compressed IS NOT NULL), 0) FROM observations";

const FLOOR: &str = "SELECT least FROM schema_floor";

const DAMAGE: &str = "UPDATE observations SET compressed = HALF WHERE seq = 4";

/// A database that several stores open, one after the other.
enum Home {
    Sqlite(TempDir),
    Postgres(Database),
}

/// A connection beside the store.
enum Beside {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Home {
    async fn open(&self) -> Bed {
        let store: Arc<dyn Store> = match self {
            Self::Sqlite(folder) => Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap()),
            Self::Postgres(database) => store_on(database).await,
        };
        Bed::on(store, Arc::new(())).await
    }

    async fn connect(&self) -> Beside {
        match self {
            Self::Sqlite(folder) => {
                let url = format!("sqlite://{}", folder.path().join("pes.db").display());
                Beside::Sqlite(SqliteConnection::connect(&url).await.unwrap())
            }
            Self::Postgres(database) => Beside::Postgres(database.connect().await),
        }
    }
}

impl Beside {
    async fn forms(&mut self) -> (i64, i64, i64, i64) {
        match self {
            Self::Sqlite(connection) => sqlx::query_as(FORMS).fetch_one(connection).await.unwrap(),
            Self::Postgres(connection) => sqlx::query_as(FORMS).fetch_one(connection).await.unwrap(),
        }
    }

    async fn floor(&mut self) -> i64 {
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(FLOOR).fetch_one(connection).await.unwrap(),
            Self::Postgres(connection) => sqlx::query_scalar(FLOOR).fetch_one(connection).await.unwrap(),
        }
    }

    async fn lower_floor(&mut self) {
        let sql = "UPDATE schema_floor SET least = 1";
        match self {
            Self::Sqlite(connection) => connection.execute(sql).await.map(drop),
            Self::Postgres(connection) => connection.execute(sql).await.map(drop),
        }
        .unwrap();
    }

    /// Cuts the entry with the seq 4 in half.
    async fn damage(&mut self) {
        let sql = |half: &str| AssertSqlSafe(DAMAGE.replace("HALF", half));
        let changed = match self {
            Self::Sqlite(connection) => {
                let half = sql("substr(compressed, 1, length(compressed) / 2)");
                sqlx::query(half).execute(connection).await.unwrap().rows_affected()
            }
            Self::Postgres(connection) => {
                let half = sql("substring(compressed FOR length(compressed) / 2)");
                sqlx::query(half).execute(connection).await.unwrap().rows_affected()
            }
        };
        assert_eq!(changed, 1);
    }
}

/// An observation with a text of 2,000 letters.
fn long(run: &str) -> Record {
    let fact = Fact::Intent(IntentBody { intent: "to know what the ferries cost ".repeat(64) });
    Record { fact, ..record("o", ObservationType::Intent, run) }
}

async fn write(bed: &Bed, pk: ThreadPk, times: usize) {
    for _ in 0..times {
        bed.done(Commit { records: vec![long("run_1")], ..bed.next(pk).await }).await;
    }
}

async fn seqs(bed: &Bed, pk: ThreadPk) -> Vec<i64> {
    let ask = ObservationAsk { limit: 100, types: vec![ObservationType::Intent], ..ObservationAsk::default() };
    bed.store.observations(pk, &ask).await.unwrap().iter().map(|seen| seen.seq).collect()
}

async fn both_forms_are_read_and_the_floor_stays_raised(home: Home) {
    let bed = home.open().await;
    let mut beside = home.connect().await;
    let pk = bed.thread("t").await;
    write(&bed, pk, 2).await;
    let (texts, none, of_texts, _) = beside.forms().await;
    assert_eq!((texts, none, beside.floor().await), (2, 0, 1), "by default it is not compressed");

    bed.store.compress_log().await.unwrap();
    write(&bed, pk, 3).await;
    let (texts, compressed, bodies, bytes) = beside.forms().await;
    assert_eq!((texts, compressed, bodies, beside.floor().await), (2, 3, of_texts, 18));
    assert!(bytes / 3 < of_texts / 2 / 3, "{bytes} of {of_texts}");
    let before = bed.observations(pk).await;
    assert_eq!(seqs(&bed, pk).await, [1, 2, 3, 4, 5]);
    bed.store.close().await;
    drop(bed);

    // A process without the setting reads both forms, and writes text.
    let plain = home.open().await;
    assert_eq!(plain.observations(pk).await, before);
    write(&plain, pk, 1).await;
    let (texts, compressed, ..) = beside.forms().await;
    assert_eq!((texts, compressed, beside.floor().await), (3, 3, 18));
    plain.store.close().await;
}

async fn an_entry_that_cannot_be_decompressed_is_left_out(home: Home) {
    let bed = home.open().await;
    let pk = bed.thread("t").await;
    bed.store.compress_log().await.unwrap();
    write(&bed, pk, 5).await;
    home.connect().await.damage().await;
    assert_eq!(seqs(&bed, pk).await, [1, 2, 3, 5]);
    assert_eq!(bed.store.old_entries(pk, 5, 9).await.unwrap().len(), 5);
    bed.store.close().await;
}

async fn a_new_log_is_compressed_and_no_older_one_is(home: Home) {
    let bed = home.open().await;
    let mut beside = home.connect().await;
    bed.store.compress_new_log().await.unwrap();
    let pk = bed.thread("t").await;
    write(&bed, pk, 1).await;
    let (texts, compressed, ..) = beside.forms().await;
    assert_eq!((texts, compressed, beside.floor().await), (0, 1, 18));
    bed.store.close().await;
    drop(bed);

    let raised = home.open().await;
    raised.store.compress_new_log().await.unwrap();
    write(&raised, pk, 1).await;
    let (texts, compressed, ..) = beside.forms().await;
    assert_eq!((texts, compressed), (0, 2), "the floor is raised already");
    raised.store.close().await;
    drop(raised);

    beside.lower_floor().await;
    let older = home.open().await;
    older.store.compress_new_log().await.unwrap();
    write(&older, pk, 1).await;
    let (texts, compressed, ..) = beside.forms().await;
    assert_eq!((texts, compressed, beside.floor().await), (1, 2, 1), "it has a thread");
    older.store.close().await;
}

#[tokio::test]
async fn a_new_log_is_not_compressed_beside_another_process_on_postgresql() {
    let home = postgres().await;
    let bed = home.open().await;
    let mut beside = home.connect().await;
    let other = Uuid::new_v4();
    bed.register(other, 60_000).await;
    bed.store.compress_new_log().await.unwrap();
    let pk = bed.thread("t").await;
    write(&bed, pk, 1).await;
    let (texts, compressed, ..) = beside.forms().await;
    assert_eq!((texts, compressed, beside.floor().await), (1, 0, 1), "it may be of an older release");

    assert!(bed.erase(pk).await);
    bed.store.unregister(other).await.unwrap();
    bed.store.compress_new_log().await.unwrap();
    assert_eq!(beside.floor().await, 18);
    bed.store.close().await;
}

fn sqlite() -> Home {
    Home::Sqlite(tempfile::tempdir().unwrap())
}

async fn postgres() -> Home {
    Home::Postgres(migrated().await)
}

#[tokio::test]
async fn both_forms_are_read_and_the_floor_stays_raised_on_sqlite() {
    both_forms_are_read_and_the_floor_stays_raised(sqlite()).await;
}

#[tokio::test]
async fn both_forms_are_read_and_the_floor_stays_raised_on_postgresql() {
    both_forms_are_read_and_the_floor_stays_raised(postgres().await).await;
}

#[tokio::test]
async fn an_entry_that_cannot_be_decompressed_is_left_out_on_sqlite() {
    an_entry_that_cannot_be_decompressed_is_left_out(sqlite()).await;
}

#[tokio::test]
async fn an_entry_that_cannot_be_decompressed_is_left_out_on_postgresql() {
    an_entry_that_cannot_be_decompressed_is_left_out(postgres().await).await;
}

#[tokio::test]
async fn a_new_log_is_compressed_and_no_older_one_is_on_sqlite() {
    a_new_log_is_compressed_and_no_older_one_is(sqlite()).await;
}

#[tokio::test]
async fn a_new_log_is_compressed_and_no_older_one_is_on_postgresql() {
    a_new_log_is_compressed_and_no_older_one_is(postgres().await).await;
}
