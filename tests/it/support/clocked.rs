//! An instance whose time passes when the test says so.

use std::sync::Arc;

use pes::domain::fault::Code;
use pes::domain::retention::Terms;
use pes::runtime::clock::Manual;
use pes::service::feed::{self, After, EventsPage, FeedAsk};
use pes::service::retention::{self, RetentionAsk};
use pes::service::{offers, threads};
use pes::store::{PageAsk, Store};
use pes::{AgentProps, Config, Instance};
use serde_json::{Value, json};

use super::demo;

pub const MINUTE: i64 = 60_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
/// 2026-11-21T00:00:00Z
pub const TODAY: i64 = 1_795_219_200_000;

pub struct Clocked {
    pub instance: Instance,
    pub store: Arc<dyn Store>,
    pub clock: Arc<Manual>,
}

impl Clocked {
    pub async fn on(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        Self::at(TODAY, store, change).await
    }

    /// One that begins at this time.
    pub async fn at(now: i64, store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        let clock = Arc::new(Manual::at(now));
        let mut config = demo::at_once();
        change(&mut config);
        let instance = Instance::build(config).store(store.clone()).clock(clock.clone()).open().await.unwrap();
        Self { instance, store, clock }
    }

    pub async fn finish(&self, thread: &str) {
        self.ask(thread, "hello").await;
    }

    /// Sends a query, and waits for the end of its run.
    pub async fn ask(&self, thread: &str, query: &str) {
        self.instance.process(AgentProps::new(thread, query)).await.unwrap();
    }

    /// Sends a query whose call a person must approve; returns the approval.
    pub async fn suspend(&self, thread: &str) -> Value {
        let gated = offers::models(self.instance.service())[0].prompts[1].clone();
        let fault = self.instance.process(AgentProps::new(thread, gated)).await.unwrap_err();
        assert_eq!(fault.code, Code::Suspended, "{fault:?}");
        let question = fault.extra.unwrap()["suspensions"][0]["suspensionId"].clone();
        json!({ "suspensionId": question, "approved": true })
    }

    pub async fn resume(&self, thread: &str, answer: Value) {
        self.instance.resume(thread, serde_json::from_value(answer).unwrap()).await.unwrap();
    }

    /// Afterwards what has expired is deleted.
    pub async fn days_pass(&self, days: i64) {
        self.clock.advance(days * DAY);
        retention::sweep(self.instance.service()).await.unwrap();
    }

    pub async fn is_there(&self, thread: &str) -> bool {
        threads::get(self.instance.service(), self.instance.caller(), &thread.into()).await.is_ok()
    }

    pub async fn keep(&self, thread: &str, terms: Terms, hold: Option<&str>) {
        let ask = RetentionAsk { terms, hold: hold.map(str::to_owned) };
        let (service, caller) = (self.instance.service(), self.instance.caller());
        retention::put(service, caller, &thread.into(), ask).await.unwrap();
    }

    pub async fn page(&self, thread: &str, after: i64) -> Result<EventsPage, Code> {
        let ask = FeedAsk { after: After::Seq(after), ..FeedAsk::default() };
        let (service, caller) = (self.instance.service(), self.instance.caller());
        feed::page(service, caller, &thread.into(), ask, 1_000).await.map_err(|fault| fault.code)
    }

    pub async fn state(&self, thread: &str, at: Option<i64>) -> Result<Value, Code> {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        threads::state(service, caller, &thread.into(), at).await.map_err(|fault| fault.code)
    }

    pub async fn messages(&self, thread: &str) -> Value {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        let page = PageAsk { limit: 100, ..PageAsk::default() };
        json!(threads::messages(service, caller, &thread.into(), page).await.unwrap().items)
    }
}
