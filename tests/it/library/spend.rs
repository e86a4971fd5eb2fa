//! No webhook reports the use of a cap whose day has ended; of several caps that are reached, all are reported.

use std::sync::Arc;

use pes::AgentProps;
use pes::config::{Config, Webhook};
use pes::domain::fault::Code;
use pes::domain::ids::TenantPk;
use pes::domain::retention::Kept;
use pes::domain::spend::{Capped, Unit};
use pes::domain::usage::Price;
use pes::domain::webhook::WebhookEvent;
use pes::runtime::clock::Clock;
use pes::service::once::Answered;
use pes::service::resources::{self, Webhooks};
use pes::store::outbox::TargetKind;
use pes::store::{PageAsk, SpendChange, SpendKey, Store};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::clocked::{Clocked, DAY};
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::wire::{Step, Wire, end, event, event_stream};

/// A nanodollar per token of a call, so that one unit of the cap is one token of the reply.
const CAP_USD: f64 = 0.000_1;

fn reply(said: &str, until: Option<Arc<Notify>>) -> Vec<Step> {
    let chunk =
        |delta: Value, reason: Value| event(json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }));
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 99_000 } });
    let rest = [chunk(json!({ "content": said }), Value::Null), chunk(json!({}), json!("stop")), event(usage), end()];
    [event_stream()].into_iter().chain(until.map(Step::Until)).chain(rest).collect()
}

fn settings(config: &mut Config, url: String) {
    config.agent.core = "react".to_owned();
    config.models.openai.base_url = Some(url);
    config.models.openai.api_key = Some("sk-test".into());
    let price = Price { input_per_million: 0.001, output_per_million: 0.001, ..Price::default() };
    config.prices.insert("openai:*".to_owned(), price);
    config.limits.spend.tenant_day_usd = Some(CAP_USD);
    config.auth.sealing_key = Some("a key that is long enough".to_owned().into());
    config.egress.allow.push("127.0.0.1:1".to_owned());
    config.retention.usage_days = Kept::FOREVER;
    // Nobody renews it while the clock jumps.
    config.runtime.lease_ms = 10 * DAY;
}

async fn told(store: &dyn Store, tenant: TenantPk, hook: &str) -> usize {
    let page = PageAsk { limit: 10, ..PageAsk::default() };
    store.deliveries(tenant, TargetKind::Webhook, hook, &page).await.unwrap().items.len()
}

/// A call that starts before midnight and ends after it counts for the day before; no warning is sent for that day any
/// more.
#[tokio::test]
async fn of_a_day_that_is_over_nobody_is_told_how_much_of_its_cap_is_used() {
    let held = Arc::new(Notify::new());
    let mut wire = Wire::serve(vec![reply("late", Some(held.clone())), reply("early", None)]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let clocked = Clocked::on(store.clone(), |config| settings(config, url)).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let hook = json!({ "url": "http://127.0.0.1:1/hook", "events": ["spend.threshold"],
        "secrets": ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="] });
    let hook = resources::create::<Webhooks>(service, caller, serde_json::from_value(hook).unwrap(), None).await;
    let Ok(Answered::Fresh(hook)) = hook else { panic!("{hook:?}") };
    let hook = json!(hook)["webhookId"].as_str().unwrap().to_owned();
    let yesterday = Capped::TenantDay.period(clocked.clock.now());
    let passes = async {
        wire.request().await;
        clocked.clock.advance(DAY);
        held.notify_one();
    };
    let (late, ()) =
        soon(async { tokio::join!(clocked.instance.process(AgentProps::new("t", "hello")), passes) }).await;
    assert_eq!(late.unwrap().response.content, "late");
    let day = SpendKey { tenant: caller.tenant, key_name: String::new(), period: yesterday, unit: Unit::Usd };
    let spent = store.spent(&[day]).await.unwrap().remove(0);
    assert_eq!((spent.used, spent.held, spent.told), (99_010, 0, 0));
    assert_eq!(told(&*store, caller.tenant, &hook).await, 0);
    // It would have been sent during its day.
    soon(clocked.instance.process(AgentProps::new("u", "hello"))).await.unwrap();
    assert_eq!(told(&*store, caller.tenant, &hook).await, 1);
    clocked.instance.close().await;
}

/// Only when the month has ended there is room again.
#[tokio::test]
async fn of_caps_that_are_reached_the_one_that_ends_last_is_named_and_all_are_announced() {
    let store = fresh_store().await;
    let clocked = Clocked::on(store.clone(), |config| {
        let spend = &mut config.limits.spend;
        (spend.tenant_day_tokens, spend.tenant_month_tokens) = (Some(20_000), Some(200_000));
        config.egress.allow.push("127.0.0.1:1".to_owned());
        config.webhooks.push(Webhook {
            id: "ops".to_owned(),
            url: "http://127.0.0.1:1/hook".to_owned(),
            events: vec![WebhookEvent::SpendThreshold],
            secrets: Vec::new(),
            tenant: None,
        });
    })
    .await;
    let (now, tenant) = (clocked.clock.now(), clocked.instance.caller().tenant);
    let both = [Capped::TenantDayTokens, Capped::TenantMonthTokens];
    let both = both.map(|capped| SpendKey::of(capped, tenant, None, now).unwrap());
    let change =
        |key: &SpendKey| SpendChange { key: key.clone(), used: 200_000, held: 0, cap: None, notices: Vec::new() };
    store.add_usage(tenant, now, Vec::new(), both.iter().map(change).collect()).await.unwrap();
    let fault = clocked.instance.process(AgentProps::new("t", "hello")).await.unwrap_err();
    assert_eq!((fault.code, fault.retry_after_ms), (Code::SpendCapReached, Some(10 * DAY)));
    let month = "the cap of 200000 tokens a month of the tenant is reached until 2026-12-01T00:00:00Z";
    assert!(fault.detail.contains(month), "{}", fault.detail);
    let told: Vec<i64> = store.spent(&both).await.unwrap().iter().map(|spent| spent.told).collect();
    assert_eq!(told, [100, 100]);
    clocked.instance.close().await;
}
