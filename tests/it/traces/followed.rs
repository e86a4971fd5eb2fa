//! The process that started a run exports its spans without reading the log. Spans rebuilt from the log are the same.

use std::sync::Arc;

use pes::domain::ids::TenantPk;
use pes::store::outbox::TargetKind;
use pes::store::{PageAsk, Store};
use rstest::rstest;
use serde_json::json;

use super::process;
use crate::support::app::App;
use crate::support::collector::Collector;
use crate::support::store::{Mood, Moody, fresh_store, replayed};

async fn open(store: Arc<dyn Store>, collector: &Collector) -> App {
    App::of(store, |config| config.telemetry.endpoint = Some(collector.endpoint())).await
}

/// Makes every delivery to the collector due again; returns how many there are.
async fn made_due(store: &dyn Store) -> usize {
    let (ask, mut found) = (PageAsk { cursor: None, limit: 10 }, 0);
    for (tenant, _) in store.tenants().await.unwrap() {
        found += due_of(store, tenant, &ask).await;
    }
    found
}

async fn due_of(store: &dyn Store, tenant: TenantPk, ask: &PageAsk) -> usize {
    let page = store.deliveries_of_tenant(tenant, TargetKind::Collector, None, ask).await.unwrap();
    for delivery in &page.items {
        assert_eq!(store.replay_delivery(tenant, &delivery.id, 1, replayed(tenant), None).await.unwrap(), Some(true));
    }
    page.items.len()
}

#[rstest]
#[tokio::test]
async fn a_run_is_told_alike_along_its_log_and_without_it(#[values("hello", "send")] query: &str) {
    let mut collector = Collector::start(&[]).await;
    let (store, is_asked) = (fresh_store().await, query == "send");
    let moody = Moody::over(store.clone());
    moody.set("facts", Mood::Fails);
    let first = open(moody.clone(), &collector).await;
    process(&first, "t", query, "01").await;
    let mut told = collector.spans().await;
    if is_asked {
        // A thread that waits for a person is dropped from memory.
        moody.set("facts", Mood::Well);
        let asked = first.asked("t").await;
        let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
        first.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
        told.extend(collector.spans().await);
    }
    first.stopped().await;

    assert_eq!(made_due(&*store).await, 1 + usize::from(is_asked));
    let second = open(store, &collector).await;
    assert_eq!(collector.spans().await, told);
    second.stopped().await;
}
