//! A store that cannot be read for a while.

use std::time::Duration;

use pes::live::EncodedKind;
use pes::service::{changes, figures};
use pes::{AgentProps, Config, Instance};
use tokio::time::Instant;

use crate::support::demo;
use crate::support::http::soon;
use crate::support::store::{Mood, Moody};

/// Each tenant with subscribers has a feed: if all of them asked at full speed, an outage would take longer to end.
#[tokio::test(start_paused = true)]
async fn changes_that_cannot_be_read_are_asked_for_less_and_less() {
    let store = Moody::fresh().await;
    let instance = Instance::build(demo::at_once()).store(store.clone()).open().await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn changes_are_read_on_after_a_panic() {
    let store = Moody::fresh().await;
    let instance = Instance::build(demo::at_once()).store(store.clone()).open().await.unwrap();
    let mut changes = changes::open(instance.service(), instance.caller()).await.unwrap();
    assert_eq!(changes.next().await.len(), 1, "it is caught up");
    store.set("threads_by_pk", Mood::PanicsOnce);
    instance.process(AgentProps::new("t", "hello")).await.unwrap();
    let told = soon(changes.next()).await;
    assert!(matches!(told[0].kind, EncodedKind::Gap), "the readers are told to read the lists again");
    instance.process(AgentProps::new("u", "hello")).await.unwrap();
    assert!(!soon(changes.next()).await.is_empty());
    instance.close().await;
}

/// Prometheus gives up a scrape after ten seconds; then it has no metrics at all, and takes the replica for down.
#[tokio::test(start_paused = true)]
async fn figures_that_do_not_arrive_soon_are_left_out_and_not_asked_for_by_each_scrape() {
    let store = Moody::fresh().await;
    let instance = Instance::build(Config::default()).store(store.clone()).open().await.unwrap();
    let service = instance.service();
    for (mood, seconds) in [(Mood::Hangs, 3), (Mood::Fails, 0)] {
        store.set("figures", mood);
        let began = Instant::now();
        assert!(figures::read(service).await.is_none(), "{mood:?}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{mood:?}");
        let began = Instant::now();
        assert!(figures::read(service).await.is_none(), "{mood:?}: another scrape at the same time");
        assert_eq!((began.elapsed(), store.calls("figures")), (Duration::ZERO, 1), "{mood:?}");
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    store.set("figures", Mood::Well);
    assert!(figures::read(service).await.is_some(), "the pause after a failure is over");
    instance.close().await;
}
