//! Data with a limited lifetime, in a thread that is kept for ever, is deleted when its time ends and not before. The
//! tests advance the clock.

use std::time::Duration;

use pes::config::Config;
use pes::domain::ids::{RunId, TenantPk};
use pes::domain::lookup::LookupKey;
use pes::domain::retention::Kept;
use pes::runtime::clock::Clock as _;
use pes::service::housekeeping;
use pes::service::once::{Answered, Idempotent};
use pes::service::resources::{self, Schedules, Webhooks};
use pes::service::runs::{self, ProcessAsk};
use pes::store::outbox::{DeliveryStatus, TargetKind};
use pes::store::{PageAsk, SessionRow, Store};
use serde_json::json;

use crate::support::clocked::{Clocked, DAY, HOUR};
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::wire::{Wire, answer};

/// Longer than any run takes.
const WAIT: Duration = Duration::from_secs(30);

async fn clocked(change: impl FnOnce(&mut Config)) -> Clocked {
    Clocked::on(fresh_store().await, |config| {
        (config.retention.thread_days, config.retention.log_days) = (Kept::FOREVER, Kept::FOREVER);
        change(config);
    })
    .await
}

async fn passes(clocked: &Clocked, time: i64) {
    clocked.clock.advance(time);
    housekeeping::sweep(clocked.instance.service()).await.unwrap();
}

fn key() -> LookupKey {
    LookupKey { kind: "kept", digest: "d".to_owned() }
}

/// Sends a query with the same key; the run, once it has ended, if it is a new one.
async fn asked(clocked: &Clocked) -> Option<RunId> {
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let ask = ProcessAsk { query: "hello".to_owned(), lookups: vec![key()], ..ProcessAsk::default() };
    let once = Idempotent { key: "k".to_owned(), scope: "process".to_owned(), fingerprint: "f".to_owned() };
    match runs::process(service, caller, &"t".into(), ask, Some(once)).await.unwrap() {
        Answered::Fresh(receipt) => {
            runs::wait(service, caller, &receipt.run_id, WAIT).await.unwrap();
            Some(receipt.run_id)
        }
        Answered::Replayed(_) => None,
    }
}

#[tokio::test]
async fn an_answer_to_a_key_is_kept_for_a_day() {
    let clocked = clocked(|_| {}).await;
    assert!(asked(&clocked).await.is_some());
    passes(&clocked, 23 * HOUR).await;
    assert_eq!(asked(&clocked).await, None, "it is answered again");
    passes(&clocked, 2 * HOUR).await;
    assert!(asked(&clocked).await.is_some(), "it is another request by now");
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_run_is_found_by_what_was_sent_for_thirty_days() {
    let clocked = clocked(|_| {}).await;
    let run = asked(&clocked).await;
    let found = async || {
        let found = clocked.store.lookups(clocked.instance.caller().tenant, &key(), 5).await.unwrap();
        found.into_iter().map(|found| found.run_id).next()
    };
    passes(&clocked, 29 * DAY).await;
    assert_eq!(found().await, run);
    passes(&clocked, 2 * DAY).await;
    assert_eq!(found().await, None);
    clocked.instance.close().await;
}

async fn statuses(store: &dyn Store, tenant: TenantPk, hook: &str) -> Vec<DeliveryStatus> {
    let page = PageAsk { limit: 10, ..PageAsk::default() };
    let found = store.deliveries(tenant, TargetKind::Webhook, hook, &page).await.unwrap();
    found.items.into_iter().map(|delivery| delivery.status).collect()
}

#[tokio::test]
async fn a_delivery_that_is_over_is_shown_for_as_long_as_the_settings_say() {
    let wire = Wire::serve(vec![answer("204 No Content", "", "")]).await;
    let address = wire.address.to_string();
    let clocked = clocked(|config| {
        config.outbox.kept_ms = 3 * DAY;
        config.auth.sealing_key = Some("a key that is long enough".to_owned().into());
        config.egress.allow.push(address);
    })
    .await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let hook = json!({ "url": format!("http://{}/hook", wire.address), "events": ["run.finished"],
        "secrets": ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="] });
    let hook = resources::create::<Webhooks>(service, caller, serde_json::from_value(hook).unwrap(), None).await;
    let Ok(Answered::Fresh(hook)) = hook else { panic!("{hook:?}") };
    clocked.finish("t").await;
    let (store, tenant) = (&*clocked.store, caller.tenant);
    let delivered = async { while statuses(store, tenant, &hook.webhook_id).await != [DeliveryStatus::Delivered] {} };
    soon(delivered).await;
    passes(&clocked, 2 * DAY).await;
    assert_eq!(statuses(store, tenant, &hook.webhook_id).await.len(), 1);
    passes(&clocked, 2 * DAY).await;
    assert_eq!(statuses(store, tenant, &hook.webhook_id).await.len(), 0);
    clocked.instance.close().await;
}

/// A process that was stopped for this long continues without reading all of them.
#[tokio::test]
async fn that_a_document_was_deleted_is_told_for_thirty_days() {
    let clocked = clocked(|_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let once = json!({ "id": "once", "at": clocked.clock.now() + 10_000 * DAY, "query": "hello" });
    resources::create::<Schedules>(service, caller, serde_json::from_value(once).unwrap(), None).await.unwrap();
    resources::delete::<Schedules>(service, caller, "once").await.unwrap();
    let told = async || {
        let documents = clocked.store.documents_since(0).await.unwrap().documents;
        documents.iter().filter(|document| document.id == "once" && document.body.is_none()).count()
    };
    passes(&clocked, 29 * DAY).await;
    assert_eq!(told().await, 1);
    passes(&clocked, 2 * DAY).await;
    assert_eq!(told().await, 0);
    clocked.instance.close().await;
}

/// Sessions expire by the system's clock, which is behind the server's time here.
#[tokio::test]
async fn a_session_is_not_deleted_before_it_has_expired() {
    let clocked = clocked(|_| {}).await;
    clocked.clock.put_forward(-2 * HOUR);
    let expires_at = clocked.clock.wall() + HOUR;
    let session = SessionRow { hash: "h".to_owned(), key_hash: "k".to_owned(), person: None, expires_at };
    clocked.store.add_session(session, 9).await.unwrap();
    let is_there = async || clocked.store.session("h").await.unwrap().is_some();
    passes(&clocked, 0).await;
    assert!(is_there().await);
    passes(&clocked, 26 * HOUR).await;
    assert!(!is_there().await);
    clocked.instance.close().await;
}
