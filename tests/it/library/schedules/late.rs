//! How late schedules are.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use pes::AgentProps;
use pes::domain::fault::Code;
use pes::runtime::clock::Clock as _;
use pes::service::{figures, schedules};
use pes::store::{DueSchedule, Figures};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::clocked::{Clocked, HOUR, MINUTE, TODAY};
use crate::support::store::fresh_store;
use crate::support::wire::{Step, Wire};

/// The run of the first time takes the only place at the provider, so those of the next times are refused.
#[tokio::test]
async fn a_time_that_is_postponed_is_late() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let url = wire.url();
    let clocked = Clocked::with(fresh_store().await, TODAY, |config| {
        config.models.openai.base_url = Some(url);
        (config.models.gate.per_provider, config.models.gate.queue) = (1, 0);
    })
    .await;
    clocked.schedule(json!({ "overlap": "allow" })).await;
    clocked.passes(MINUTE).await;
    wire.request().await;
    clocked.passes(MINUTE).await;
    clocked.passes(10 * MINUTE).await;
    let standing = clocked.standing().await;
    assert_eq!((clocked.runs().await.len(), standing.next_due), (1, Some(TODAY + 2 * MINUTE)));
    assert!(standing.last_error.is_some(), "it says why it is postponed");
    let service = clocked.instance.service();
    let figures = figures::read(service).await.expect("the store answers");
    assert_eq!(schedules::lag(service, &figures), 10 * MINUTE);
}

/// A time is late from the moment at which its run could have begun.
#[tokio::test]
async fn jitter_is_no_delay() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "everyMs": HOUR, "jitterMs": HOUR / 2 })).await;
    let service = clocked.instance.service();
    let state = clocked.store.schedule_state(clocked.caller().tenant, "s").await.unwrap().unwrap();
    let next = state.next.expect("it is planned");
    assert!(next.due < next.look_at, "this time has some");
    let due = DueSchedule { tenant: state.tenant, id: state.id, due: next.due };
    let figures = Figures { schedules: vec![due], ..Figures::default() };
    for (now, late) in [(next.due, 0), (next.look_at, 0), (next.look_at + MINUTE, MINUTE)] {
        clocked.clock.advance(now - clocked.clock.now());
        assert_eq!(schedules::lag(service, &figures), late);
    }
}

/// The cap is looked at once a minute, and only the run that a caller asks for is a refused one.
#[tokio::test]
async fn a_time_at_a_cap_is_postponed_by_a_minute_and_is_no_refused_run() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let clocked = Clocked::with(fresh_store().await, TODAY, |config| {
        config.limits.spend.tenant_month_tokens = Some(1);
    })
    .await;
    clocked.schedule(json!({})).await;
    clocked.passes(MINUTE).await;
    let state = clocked.store.schedule_state(clocked.caller().tenant, "s").await.unwrap().unwrap();
    assert!(state.said.unwrap().starts_with("No run is accepted: the cap of 1 tokens a month"));
    let next = state.next.unwrap();
    assert_eq!((next.due, next.look_at), (TODAY + MINUTE, TODAY + 2 * MINUTE));
    let asked = clocked.instance.process(AgentProps::new("t", "hello")).await;
    assert_eq!(asked.unwrap_err().code, Code::SpendCapReached);
    let counted = recorder.handle().render();
    assert!(counted.contains("pes_spend_refused_total{cap=\"tenant_month_tokens\"} 1\n"), "{counted}");
}
