//! `store.compress_log` cannot be taken back, so only a server that starts obeys it.

use std::path::Path;

use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use super::client::http;
use super::run;
use super::serving::{ask, serve};

const FLOOR: &str = "SELECT least FROM schema_floor";
const COMPRESSED: &str = "SELECT count(*) FROM observations WHERE compressed IS NOT NULL";

async fn number(folder: &Path, query: &'static str) -> i64 {
    let url = format!("sqlite://{}", folder.join("data/pes.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn only_a_server_that_starts_compresses_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    serve(folder, &[]).stop();
    let compressed = [("PES_STORE_COMPRESS_LOG", "true"), ("PES_DEMO_PACE", "0")];
    for command in [&["keys", "ls"][..], &["doctor"]] {
        run(folder, command, &compressed);
    }
    let reachable = [compressed[0], ("HOST", "0.0.0.0"), ("PORT", "0")];
    assert!(!run(folder, &[], &reachable).status.success(), "it has no keys");
    assert_eq!(number(folder, FLOOR).await, 1);

    let served = serve(folder, &compressed);
    ask(&served.url, "hello");
    assert_eq!(http(&served.url, "/threads/t")["status"], json!("idle"));
    assert_eq!(number(folder, FLOOR).await, 18);
    assert!(number(folder, COMPRESSED).await > 0);
    served.stop();
}
