//! How late schedules are.

use std::sync::Arc;

use pes::runtime::clock::Clock as _;
use pes::service::{figures, schedules};
use pes::store::{DueSchedule, Figures};
use serde_json::json;
use tokio::sync::Notify;

use super::{Clocked, HOUR, MINUTE, TODAY};
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
