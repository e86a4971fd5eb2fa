//! Spans of a long run are exported as they end, before the run ends. The tests advance the clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::engine::step::RowKind;
use pes::runtime::clock::Manual;
use pes::service::retention;
use pes::store::{Order, PageAsk};
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Builder, Instance};
use rstest::rstest;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::named;
use crate::support::clocked::{DAY, HOUR, TODAY};
use crate::support::collector::Collector;
use crate::support::demo;
use crate::support::otlp::Span;
use crate::support::postgres::Database;
use crate::support::store::fresh_store;
use crate::support::tool::spec;

/// Three items, one after the other; each takes longer than a run may go without an export.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "First", stepType = "tool" },
    { id = "two", description = "Second", stepType = "tool", dependencies = ["one"] },
    { id = "three", description = "Third", stepType = "tool", dependencies = ["two"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "take_long", arguments = {} }]

[[reply]]
when = { phase = "execution" }
text = "It took long."

[[reply]]
when = { phase = "synthesis" }
text = "That was it."
"#;

/// Takes 31 seconds of the clock, as often as the test permits.
struct TakesLong {
    clock: Arc<Manual>,
    permits: Arc<Semaphore>,
}

#[async_trait]
impl Tool for TakesLong {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(spec("take_long"))
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.permits.acquire().await.expect("nobody closes it").forget();
        self.clock.advance(31_000);
        Ok(ToolOutput::new("done"))
    }
}

struct Long {
    database: Option<Database>,
    clock: Arc<Manual>,
    permits: Arc<Semaphore>,
    collector: Collector,
    folder: tempfile::TempDir,
}

impl Long {
    async fn on(database: Option<Database>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Manual::at(TODAY));
        let permits = Arc::new(Semaphore::new(0));
        Self { database, clock, permits, collector: Collector::start(&[]).await, folder }
    }

    async fn open(&self) -> Instance {
        self.builder().open().await.unwrap()
    }

    fn builder(&self) -> Builder {
        let mut config = demo::scripted(SCRIPT);
        config.store.data_dir = self.folder.path().join("data");
        config.store.url = self.database.as_ref().map(|database| database.url().into());
        config.telemetry.endpoint = Some(self.collector.endpoint());
        // Long enough to store what the collector accepted; the running call does not end.
        config.runtime.drain_ms = 5_000;
        // Longer than the whole test by its clock.
        config.runtime.lease_ms = HOUR;
        let tool = TakesLong { clock: self.clock.clone(), permits: self.permits.clone() };
        Instance::build(config).clock(self.clock.clone()).tool(Arc::new(tool))
    }
}

fn steps(spans: &[Span]) -> Vec<&str> {
    let steps = spans.iter().filter(|span| span.name == "pes.step");
    steps.map(|span| span.attributes["pes.item.id"].as_str()).collect()
}

/// A process that continues the run exports the rest, and no span twice.
#[rstest]
#[tokio::test]
async fn a_long_run_is_told_while_it_goes_on_and_each_span_once(#[values(false, true)] is_postgres: bool) {
    let mut long = Long::on(if is_postgres { Some(Database::fresh().await) } else { None }).await;
    let first = Arc::new(long.open().await);
    let asker = first.clone();
    let asked = tokio::spawn(async move { asker.process(AgentProps::new("t", "hello")).await.map(drop) });
    long.permits.add_permits(1);
    // The commit of the first result is the first one after 31 seconds.
    let early = long.collector.spans().await;
    assert!(
        named(&early, "plan").end > 0 && early.iter().any(|span| span.name == "execute_tool take_long"),
        "{early:#?}"
    );
    assert!(!early.iter().any(|span| span.name == "invoke_agent pes"), "it goes on: {early:#?}");
    long.permits.add_permits(1);
    let later = long.collector.spans().await;
    assert_eq!(steps(&later), ["one"], "what was over since then: {later:#?}");

    asked.abort();
    let _ = asked.await;
    Arc::into_inner(first).expect("nobody else has it").close().await;
    let second = long.open().await;
    long.permits.add_permits(1);
    let mut all: Vec<Span> = early.iter().chain(&later).cloned().collect();
    while !all.iter().any(|span| span.name == "invoke_agent pes") {
        all.extend(long.collector.spans().await);
    }
    second.close().await;
    assert_eq!(long.collector.waiting(), 0);
    let ids: BTreeSet<&str> = all.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), all.len(), "no span is told twice: {all:#?}");
    assert!(all.iter().all(|span| span.parent.is_empty() || ids.contains(span.parent.as_str())), "{all:#?}");
    assert_eq!(steps(&all), ["one", "two", "three"]);
    let count = |name: &str| all.iter().filter(|span| span.name.starts_with(name)).count();
    assert_eq!((count("execute_tool"), count("plan"), count("invoke_agent")), (3, 1, 1));
    // Two for each item, the plan, and the synthesis.
    assert_eq!(count("chat"), 8, "{all:#?}");
}

/// How much of it was sent is stored in a row of the thread.
#[tokio::test]
async fn what_was_told_of_a_long_run_is_forgotten_with_its_log() {
    let (long, store) = (Long::on(None).await, fresh_store().await);
    let instance = long.builder().store(store.clone()).open().await.unwrap();
    long.permits.add_permits(3);
    instance.process(AgentProps::new("t", "hello")).await.unwrap();
    let pk = store.thread(instance.caller().tenant, &"t".into()).await.unwrap().unwrap().pk;
    let traced = async || {
        let page = PageAsk { limit: 10, ..PageAsk::default() };
        store.rows(pk, RowKind::Traced, Order::Ascending, &page).await.unwrap().items.len()
    };
    assert_eq!(traced().await, 1);
    long.clock.advance(91 * DAY);
    retention::sweep(instance.service()).await.unwrap();
    assert_eq!(traced().await, 0);
    instance.close().await;
}
