//! What breaks for one schedule stops neither its next times nor other schedules.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::run::RunStatus;
use pes::store::sqlite::Sqlite;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::{Clocked, MINUTE, TODAY};

/// What may be stored of a run: text that is no JSON, and bytes that are no text.
const NO_JSON: &str = "UPDATE thread_rows SET body = '{' WHERE kind = 1";
const NO_TEXT: &str = "UPDATE thread_rows SET body = CAST(x'ff' AS TEXT) WHERE kind = 1";

#[rstest::rstest]
#[case::skip(json!({ "overlap": "skip" }))]
#[case::queue(json!({ "overlap": "queue" }))]
#[case::cancel(json!({ "overlap": "cancel" }))]
#[case::pause(json!({ "overlap": "allow", "pauseOnFailure": true }))]
#[tokio::test]
async fn a_finished_run_that_cannot_be_read_stops_no_schedule(
    #[case] more: Value,
    #[values(NO_JSON, NO_TEXT)] damage: &'static str,
) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let clocked = Clocked::on(Arc::new(store), TODAY).await;
    clocked.schedule(more).await;
    clocked.passes(MINUTE).await;
    let first = clocked.runs().await.remove(0);
    assert_eq!(clocked.finished(&first).await, RunStatus::Completed);
    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    assert_eq!(sqlx::query(damage).execute(&mut other).await.unwrap().rows_affected(), 1);
    other.close().await.unwrap();
    clocked.passes(MINUTE).await;
    let runs = clocked.runs().await;
    assert_eq!(runs.len(), 1, "that of the second time");
    assert_ne!(runs[0].run_id, first.run_id);
}
