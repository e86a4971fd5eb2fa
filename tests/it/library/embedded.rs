//! What a program that embeds an instance keeps: its own shutdown, its futures, its metrics.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics_exporter_prometheus::PrometheusBuilder;
use pes::domain::fault::Code;
use pes::domain::run::RunStatus;
use pes::domain::tool::{ToolClass, ToolError, ToolSpec};
use pes::engine::pes::Pes;
use pes::service::runs;
use pes::store::PageAsk;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Instance};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::counts::alone;
use crate::support::demo;
use crate::support::http::soon;
use crate::support::slow_tool::SCRIPT;
use crate::support::store::fresh_store;

/// A tool that says when it is called, and ends when it is let go, if ever.
#[derive(Default)]
struct Slow {
    called: Notify,
    lets_go: Option<Notify>,
}

#[async_trait]
impl Tool for Slow {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec::new("slow", "Slow.", ToolClass::Read, json!({ "type": "object" })).with_timeout_ms(60_000))
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.called.notify_one();
        match &self.lets_go {
            Some(lets_go) => lets_go.notified().await,
            None => pending().await,
        }
        Ok(ToolOutput::default())
    }
}

async fn with(slow: &Arc<Slow>) -> Instance {
    let mut config = demo::scripted(SCRIPT);
    // A tenth of a second for what is under way.
    config.runtime.drain_ms = 2_600;
    Instance::build(config).store(fresh_store().await).tool(slow.clone()).open().await.unwrap()
}

#[tokio::test]
async fn whoever_waits_while_an_instance_is_closed_is_told_which_run_continues_later() {
    let slow = Arc::new(Slow::default());
    let instance = with(&slow).await;
    let close = async {
        slow.called.notified().await;
        instance.service().close().await;
    };
    let asks = instance.process(AgentProps::new("t", "work"));
    let (fault, ()) = soon(async { tokio::join!(asks, close) }).await;
    let fault = fault.unwrap_err();
    assert_eq!(fault.code, Code::Draining, "{fault:?}");
    assert!(fault.detail.ends_with("after the next start it continues, or waits for what it waited for."), "{fault}");
    assert!(fault.extra.unwrap()["runId"].as_str().unwrap().starts_with("run_"));
}

#[tokio::test]
async fn a_run_goes_on_if_the_future_that_asked_for_it_is_dropped() {
    let slow = Arc::new(Slow { lets_go: Some(Notify::new()), ..Slow::default() });
    let instance = with(&slow).await;
    tokio::select! {
        answer = instance.process(AgentProps::new("t", "work")) => panic!("{answer:?}"),
        () = slow.called.notified() => {}
    }
    slow.lets_go.as_ref().unwrap().notify_one();
    let (service, caller) = (instance.service(), instance.caller());
    let runs = runs::of_thread(service, caller, &"t".into(), PageAsk::default()).await.unwrap().items;
    assert_eq!(runs.len(), 1);
    let waited = soon(runs::wait(service, caller, &runs[0].run_id, Duration::from_secs(3_600))).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    instance.close().await;
}

#[tokio::test]
async fn a_core_whose_name_is_taken_is_refused() {
    let built = Instance::build(demo::at_once()).store(fresh_store().await).core(Arc::new(Pes::planned()));
    let Err(error) = built.open().await else { panic!("it would never be used") };
    assert_eq!(error.to_string(), "The agent core `pes` is registered twice.");
}

/// The recorder of a server keeps each sample until the server counts it, which an instance has nobody for.
#[test]
fn an_instance_installs_no_recorder_of_metrics_and_uses_that_of_its_program() {
    let this = "library::embedded::an_instance_installs_no_recorder_of_metrics_and_uses_that_of_its_program";
    alone(this, async || {
        super::instance().await.close().await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let numbers = recorder.handle();
        assert!(metrics::set_global_recorder(recorder).is_ok(), "the instance has installed another one");
        let instance = super::instance().await;
        instance.process(AgentProps::new("t", "hello")).await.unwrap();
        assert!(numbers.render().contains("pes_model_calls_total"), "{}", numbers.render());
        instance.close().await;
    });
}
