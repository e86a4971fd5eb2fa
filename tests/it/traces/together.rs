//! Spans of runs of different threads are exported in one request.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pes::config::{Config, Synchronous};
use pes::domain::ids::TenantPk;
use pes::store::outbox::{Delivery, TargetKind};
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, Store};
use pes::{AgentProps, Instance};
use rstest::rstest;

use crate::support::collector::Collector;
use crate::support::demo;
use crate::support::http::{pass, until};
use crate::support::otlp::Span;
use crate::support::postgres::Database;
use crate::support::store::replayed;

/// Far longer than an attempt takes to which the collector responds.
const ATTEMPT: Duration = Duration::from_secs(30);

async fn open(folder: &Path, database: Option<&Database>, collector: &Collector) -> Instance {
    let mut config = demo::at_once();
    config.outbox.attempt_timeout_ms = ATTEMPT.as_millis().try_into().unwrap();
    config.store.data_dir = folder.to_owned();
    config.store.url = database.map(|database| database.url().into());
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

/// Makes all of them due again; nobody sends them yet.
async fn made_due(folder: &Path, database: Option<&Database>, tenant: TenantPk) {
    let store = store(folder, database).await;
    for delivery in deliveries(&*store, tenant).await {
        assert_eq!(store.replay_delivery(tenant, &delivery.id, 1, replayed(tenant), None).await.unwrap(), Some(true));
    }
    store.close().await;
}

/// Their status, the oldest first, while nobody sends them.
async fn standings(folder: &Path, database: Option<&Database>, tenant: TenantPk) -> Vec<&'static str> {
    let store = store(folder, database).await;
    let standings = deliveries(&*store, tenant).await.into_iter().map(|delivery| delivery.status.as_str()).collect();
    store.close().await;
    standings
}

/// The threads whose runs were exported, and the number of spans of each.
fn told(spans: &[Span]) -> BTreeMap<&str, usize> {
    let runs = spans.iter().filter(|span| span.name == "invoke_agent pes");
    let of = |run: &Span| spans.iter().filter(|span| span.trace == run.trace).count();
    runs.map(|run| (run.attributes["gen_ai.conversation.id"].as_str(), of(run))).collect()
}

/// A refused delivery does not affect the others.
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

    made_due(folder.path(), database.as_ref(), tenant).await;
    let second = open(folder.path(), database.as_ref(), &collector).await;
    let (together, one, two) = (collector.spans().await, collector.spans().await, collector.spans().await);
    second.close().await;

    let [alone_one, alone_two] = alone.try_into().unwrap();
    assert_eq!(together, [alone_one.clone(), alone_two.clone()].concat());
    assert_eq!(told(&together).into_keys().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((one, two), (alone_one, alone_two), "the collector refused them together");
    assert_eq!(collector.waiting(), 0);
    assert_eq!(standings(folder.path(), database.as_ref(), tenant).await, ["dead", "delivered"]);
}

/// However long the collector takes for the next delivery.
#[rstest]
#[tokio::test]
async fn what_the_collector_took_is_delivered(#[values(false, true)] is_postgres: bool) {
    let folder = tempfile::tempdir().unwrap();
    let database = if is_postgres { Some(Database::fresh().await) } else { None };
    let mut collector = Collector::start(&[200, 200, 400, 200, 0]).await;
    let first = open(folder.path(), database.as_ref(), &collector).await;
    let tenant = first.caller().tenant;
    for thread in ["one", "two"] {
        first.process(AgentProps::new(thread, "hello")).await.unwrap();
        collector.spans().await;
    }
    first.close().await;
    made_due(folder.path(), database.as_ref(), tenant).await;
    let second = open(folder.path(), database.as_ref(), &collector).await;
    for _ in ["together", "one", "two"] {
        collector.spans().await;
    }
    pass(ATTEMPT).await;
    second.close().await;
    assert_eq!(standings(folder.path(), database.as_ref(), tenant).await, ["delivered", "pending"]);
}

#[tokio::test]
async fn what_was_left_for_a_collector_that_is_set_no_more_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut collector = Collector::start(&[]).await;
    let first = open(folder.path(), None, &collector).await;
    let tenant = first.caller().tenant;
    first.process(AgentProps::new("one", "hello")).await.unwrap();
    collector.spans().await;
    first.close().await;
    made_due(folder.path(), None, tenant).await;
    let store = store(folder.path(), None).await;
    let second = Instance::build(Config::default()).store(store.clone()).open().await.unwrap();
    let are_ended =
        async || deliveries(&*store, tenant).await.iter().all(|delivery| delivery.status.as_str() == "dead");
    until("no delivery is left", are_ended).await;
    second.close().await;
}
