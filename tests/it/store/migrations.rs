//! A database that an older version wrote is read as it was written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::store::{ObservationAsk, Store};
use sqlx::migrate::Migrator;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::support::postgres::Database;

const PK: ThreadPk = ThreadPk(7);
/// The last schema in which every observation was a row of its own.
const SINGLE: i64 = 11;

const OBSERVATIONS: &str = r#"
INSERT INTO observations (pk, seq, type, run, body) VALUES
    (7, 1, 'RUN_STARTED', 'run_"1"', '{"id":"obs_1","traceId":"t1","timestamp":5,"content":{"query":"say \"hello\""}}'),
    (7, 2, 'PLAN', 'run_2', '{"id":"obs_2","parentId":"item_1","traceId":"t2","timestamp":6,"title":"T","content":[1],"metadata":{"a":1}}')
"#;

/// The migrations of that time.
async fn older(dialect: &str, folder: &Path) -> Migrator {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(dialect);
    for file in std::fs::read_dir(all).unwrap() {
        let path: PathBuf = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name[..4].parse::<i64>().unwrap() <= SINGLE {
            std::fs::copy(&path, folder.join(name)).unwrap();
        }
    }
    Migrator::new(folder).await.unwrap()
}

async fn is_read_as_it_was(store: Arc<dyn Store>) {
    let found = store.observations(PK, &ObservationAsk { limit: 9, ..Default::default() }).await.unwrap();
    let texts: Vec<String> = found.iter().map(|told| serde_json::to_string(told).unwrap()).collect();
    let expected = [
        r#"{"seq":1,"id":"obs_1","threadId":"t","runId":"run_\"1\"","traceId":"t1","timestamp":5,"type":"RUN_STARTED","title":"","content":{"query":"say \"hello\""}}"#,
        r#"{"seq":2,"id":"obs_2","threadId":"t","runId":"run_2","parentId":"item_1","traceId":"t2","timestamp":6,"type":"PLAN","title":"T","content":[1],"metadata":{"a":1}}"#,
    ];
    assert_eq!(texts, expected);
    let plans = ObservationAsk { types: vec![ObservationType::Plan], limit: 9, ..Default::default() };
    assert_eq!(store.observations(PK, &plans).await.unwrap(), found[1..]);
}

#[tokio::test]
async fn single_observations_on_sqlite() {
    let (folder, scripts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("pes.db").display());
    let mut old = SqliteConnection::connect(&url).await.unwrap();
    older("sqlite", scripts.path()).await.run(&mut old).await.unwrap();
    let thread = "INSERT INTO threads VALUES (7, 1, 't', 'pes', 1, 0, NULL, NULL, '', 'idle', NULL, 0, 2, 1, 0, 1, 1, '', '{}', '')";
    old.execute(thread).await.unwrap();
    old.execute(OBSERVATIONS).await.unwrap();
    old.close().await.unwrap();
    is_read_as_it_was(Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())).await;
}

#[tokio::test]
async fn single_observations_on_postgres() {
    let (database, scripts) = (Database::fresh().await, tempfile::tempdir().unwrap());
    let mut old = database.connect().await;
    older("postgres", scripts.path()).await.run(&mut old).await.unwrap();
    let thread = "INSERT INTO threads (pk, tenant, version, epoch, floor, last_seq, min_seq, created_at, updated_at, crash_count,
        status, core, thread_id, commits, title, sheet, head)
        VALUES (7, 1, 1, 0, 0, 2, 1, 1, 1, 0, 'idle', 'pes', 't', '{}', '', '{}', '')";
    old.execute(thread).await.unwrap();
    old.execute(OBSERVATIONS).await.unwrap();
    is_read_as_it_was(Arc::new(Postgres::open(&database.url().into(), 2).await.unwrap())).await;
}
