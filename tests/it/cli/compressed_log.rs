//! A compressed log cannot be taken back, so only a server that starts begins one; without `store.compress_log`, only in a
//! database without threads.

use std::path::Path;

use sqlx::{Connection, SqliteConnection};

use super::run;
use super::serving::{ask, serve};

const FLOOR: &str = "SELECT least FROM schema_floor";
const COMPRESSED: &str = "SELECT count(*) FROM observations WHERE compressed IS NOT NULL";

async fn number(folder: &Path, query: &'static str) -> i64 {
    let url = format!("sqlite://{}", folder.join("data/pes.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
}

/// Asks a server something; returns the floor and how many entries are compressed afterwards.
async fn ask_one(folder: &Path, settings: &[(&str, &str)]) -> (i64, i64) {
    let served = serve(folder, settings);
    ask(&served.url, "hello");
    let found = (number(folder, FLOOR).await, number(folder, COMPRESSED).await);
    served.stop();
    found
}

#[tokio::test]
async fn only_a_server_that_starts_compresses_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for command in [&["keys", "ls"][..], &["doctor"]] {
        run(folder, command, &[]);
    }
    let reachable = [("HOST", "0.0.0.0"), ("PORT", "0")];
    assert!(!run(folder, &[], &reachable).status.success(), "it has no keys");
    let unknown = [("PES_AGENT_CORE", "none"), ("PORT", "0")];
    assert!(!run(folder, &[], &unknown).status.success(), "there is no such core");
    assert_eq!(number(folder, FLOOR).await, 1);
    let not = ("PES_STORE_COMPRESS_LOG", "false");
    assert_eq!(ask_one(folder, &[not]).await, (1, 0));
    assert_eq!(ask_one(folder, &[]).await, (1, 0), "it has threads");

    let (floor, compressed) = ask_one(folder, &[("PES_STORE_COMPRESS_LOG", "true")]).await;
    assert_eq!((floor, compressed > 0), (18, true));
    assert!(ask_one(folder, &[]).await.1 > compressed, "it has been compressed before");
    let compressed = number(folder, COMPRESSED).await;
    assert_eq!(ask_one(folder, &[not]).await, (18, compressed));
}

#[tokio::test]
async fn a_new_database_has_a_compressed_log() {
    let folder = tempfile::tempdir().unwrap();
    let (floor, compressed) = ask_one(folder.path(), &[]).await;
    assert_eq!((floor, compressed > 0), (18, true));
}
