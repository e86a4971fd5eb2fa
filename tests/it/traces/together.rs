//! What the runs of all threads leave for the collector goes out together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pes::config::{Config, Synchronous};
use pes::domain::ids::TenantPk;
use pes::store::outbox::{Delivery, TargetKind};
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, Store};
use pes::{AgentProps, Instance};
use rstest::rstest;

use super::collector::Collector;
use super::otlp::Span;
use crate::support::postgres::Database;

async fn open(folder: &Path, database: Option<&Database>, collector: &Collector) -> Instance {
    let mut config = Config::default();
    config.store.data_dir = folder.to_owned();
    config.store.url = database.map(|database| database.url().into());
    config.models.demo.pace_ms = 0;
    config.telemetry.endpoint = Some(collector.endpoint());
    Instance::build(config).open().await.unwrap()
}

async fn store(folder: &Path, database: Option<&Database>) -> Arc<dyn Store> {
    match database {
        Some(database) => Arc::new(Postgres::open(&database.url().into(), 2).await.unwrap()),
        None => Arc::new(Sqlite::open(folder, Synchronous::Full).await.unwrap()),
    }
}

/// The oldest first.
async fn deliveries(store: &dyn Store, tenant: TenantPk) -> Vec<Delivery> {
    let ask = PageAsk { cursor: None, limit: 10 };
    let page = store.deliveries_of_tenant(tenant, TargetKind::Collector, None, &ask).await.unwrap();
    page.items.into_iter().rev().collect()
}

/// The threads whose runs are told, and how many spans of each.
fn told(spans: &[Span]) -> BTreeMap<&str, usize> {
    let runs = spans.iter().filter(|span| span.name == "invoke_agent pes");
    let of = |run: &Span| spans.iter().filter(|span| span.trace == run.trace).count();
    runs.map(|run| (run.attributes["gen_ai.conversation.id"].as_str(), of(run))).collect()
}

/// And what the collector refuses takes nothing else with it.
#[rstest]
#[tokio::test]
async fn what_is_due_at_once_is_one_request(#[values(false, true)] is_postgres: bool) {
    let folder = tempfile::tempdir().unwrap();
    let database = if is_postgres { Some(Database::fresh().await) } else { None };
    let mut collector = Collector::start(&[200, 200, 400, 400]).await;
    let first = open(folder.path(), database.as_ref(), &collector).await;
    let tenant = first.caller().tenant;
    let mut alone = Vec::new();
    for thread in ["one", "two"] {
        first.process(AgentProps::new(thread, "hello")).await.unwrap();
        alone.push(collector.spans().await);
    }
    first.close().await;

    // Both are due, and nobody sends them yet.
    let between = store(folder.path(), database.as_ref()).await;
    for delivery in deliveries(&*between, tenant).await {
        assert_eq!(between.replay_delivery(tenant, &delivery.id, 1, None).await.unwrap(), Some(true));
    }
    between.close().await;
    drop(between);
    let second = open(folder.path(), database.as_ref(), &collector).await;
    let (together, one, two) = (collector.spans().await, collector.spans().await, collector.spans().await);
    second.close().await;

    let [alone_one, alone_two] = alone.try_into().unwrap();
    assert_eq!(together, [alone_one.clone(), alone_two.clone()].concat());
    assert_eq!(told(&together).into_keys().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((one, two), (alone_one, alone_two), "the collector refused them together");
    assert_eq!(collector.waiting(), 0);
    let after = store(folder.path(), database.as_ref()).await;
    let came_to: Vec<_> = deliveries(&*after, tenant).await.into_iter().map(|it| it.status.as_str()).collect();
    assert_eq!(came_to, ["dead", "delivered"]);
    after.close().await;
}
