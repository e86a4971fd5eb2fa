//! A store that cannot be read for a while.

use std::time::Duration;

use pes::service::changes;
use pes::{AgentProps, Config, Instance};

use crate::support::http::soon;
use crate::support::store::{Mood, Moody};

/// Each tenant with subscribers has a feed: if all of them asked at full speed, an outage would take longer to end.
#[tokio::test(start_paused = true)]
async fn changes_that_cannot_be_read_are_asked_for_less_and_less() {
    let store = Moody::fresh().await;
    let mut config = Config::default();
    config.models.demo.pace_ms = 0;
    let instance = Instance::build(config).store(store.clone()).open().await.unwrap();
    let mut changes = changes::open(instance.service(), instance.caller()).await.unwrap();
    assert_eq!(changes.next().await.len(), 1, "it is caught up");
    store.calls("suspensions");
    for call in ["threads_by_pk", "suspensions"] {
        store.set(call, Mood::Fails);
    }
    instance.process(AgentProps::new("t", "hello")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(58)).await;
    // After half a second, one, two and then every four seconds.
    assert_eq!(store.calls("suspensions"), 16);
    for call in ["threads_by_pk", "suspensions"] {
        store.set(call, Mood::Well);
    }
    assert!(!soon(changes.next()).await.is_empty(), "the readers are told to read the lists again");
    instance.close().await;
}
