//! A database that goes back to an earlier state while replicas run, as after a failover to a standby that lacked the last
//! commits.

use metrics_exporter_prometheus::PrometheusBuilder;
use sqlx::Executor as _;

use super::probe::{Probe, ask};
use super::replicas::{LONG, cancel, replica};
use crate::support::http::until;
use crate::support::metrics::found;
use crate::support::postgres::Database;

#[tokio::test]
async fn each_thread_that_went_back_is_reported_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let counted = || found(&metrics.render(), "pes_threads_went_back_total").unwrap_or_default();
    let (database, probe) = (Database::fresh().await, Probe::new());
    let owner = replica(&database, &probe, LONG).await;
    ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let mut other = database.connect().await;
    other.execute("UPDATE threads SET version = version - 1").await.unwrap();
    until("it is reported", async || counted() == 1.0).await;
    other.execute("UPDATE threads SET version = version - 1").await.unwrap();
    assert_eq!(cancel(&owner).await, 1, "its owner goes on with it as it is stored");
    assert_eq!(counted(), 1.0);
}
