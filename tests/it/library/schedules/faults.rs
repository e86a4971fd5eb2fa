//! What breaks for one schedule stops neither its next times nor other schedules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pes::Instance;
use pes::config::Synchronous;
use pes::domain::caller::Caller;
use pes::domain::ids::TenantPk;
use pes::domain::run::RunStatus;
use pes::runtime::clock::Manual;
use pes::service::schedules;
use pes::store::sqlite::Sqlite;
use pes::tool::{Tool, ToolSource};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use crate::support::clocked::{Clocked, HOUR, MINUTE, TODAY};
use crate::support::demo;
use crate::support::store::fresh_store;

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
    let clocked = Clocked::with(Arc::new(store), TODAY, |_| {}).await;
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

/// A source of the embedding program, with no tools, that breaks for one tenant.
struct Breaking {
    tenant: TenantPk,
    /// It breaks while this is odd.
    generation: AtomicU64,
}

impl ToolSource for Breaking {
    fn generation(&self, _: TenantPk) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        assert!(tenant != self.tenant || self.generation(tenant) & 1 == 0, "the tools of one tenant break");
        Arc::new([])
    }
}

#[tokio::test]
async fn a_panic_at_the_tools_of_one_tenant_delays_no_other_schedule() {
    let (store, clock) = (fresh_store().await, Arc::new(Manual::at(TODAY)));
    let tenant = store.tenant("hurt", TODAY).await.unwrap();
    let source = Arc::new(Breaking { tenant, generation: AtomicU64::new(0) });
    let mut config = demo::at_once();
    config.runtime.lease_ms = 24 * HOUR;
    let built = Instance::build(config).store(store.clone()).clock(clock.clone()).tools_of(source.clone());
    let clocked = Clocked { instance: built.open().await.unwrap(), store, clock };
    let hurt = Caller { tenant, tenant_name: "hurt".to_owned(), ..clocked.caller().clone() };
    let hurt_runs = async || schedules::runs_of(clocked.instance.service(), &hurt, "s", 9).await.unwrap().len();
    clocked.schedule_by(&hurt, json!({})).await;
    clocked.schedule(json!({})).await;
    source.generation.fetch_add(1, Ordering::SeqCst);
    clocked.passes(MINUTE).await;
    assert_eq!((hurt_runs().await, clocked.runs().await.len()), (0, 1));
    source.generation.fetch_add(1, Ordering::SeqCst);
    clocked.passes(0).await;
    assert_eq!(hurt_runs().await, 1, "that time is still due");
}
