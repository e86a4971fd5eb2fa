//! The example of a core from outside the crate runs on the same runtime.

use std::sync::Arc;

use pes::domain::run::CallerStatus;
use pes::domain::settings::ThreadConfig;
use pes::service::a2a::tasks::{Messages, RunSnapshotAsk};
use pes::service::threads::{self, NewThreadAsk};
use pes::store::PageAsk;
use pes::{AgentProps, Config, Instance};

#[path = "../../../examples/custom_core/main.rs"]
#[allow(dead_code, reason = "an example has its own main")]
mod example;

use crate::support::store::fresh_store;
use example::oneshot::Oneshot;
use pes::service::a2a::tasks;

#[tokio::test]
async fn the_example_answers() {
    let answer = example::answer("What is this?").await.unwrap();
    assert!(answer.contains("demo model"), "{answer}");
}

#[tokio::test]
async fn its_runs_are_listed_where_they_stand_though_it_writes_no_row_for_that() {
    let core = Arc::new(Oneshot);
    let instance = Instance::build(Config::default()).store(fresh_store().await).core(core).open().await.unwrap();
    let config = ThreadConfig { agent_core: Some("oneshot".to_owned()), ..ThreadConfig::default() };
    let thread = NewThreadAsk { thread_id: Some("t1".into()), config, ..NewThreadAsk::default() };
    threads::create(instance.service(), instance.caller(), thread, None).await.unwrap();
    instance.process(AgentProps::new("t1", "go")).await.unwrap();
    let listed = async |status| {
        let page = PageAsk { cursor: None, limit: 9 };
        let ask = RunSnapshotAsk {
            thread: None,
            statuses: vec![status],
            since: None,
            messages: Messages::OfFailedRuns,
            page,
        };
        tasks::list(instance.service(), instance.caller(), ask).await.unwrap().1
    };
    assert_eq!((listed(CallerStatus::Completed).await, listed(CallerStatus::Running).await), (1, 0));
    instance.close().await;
}
