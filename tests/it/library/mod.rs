//! The library API: the same service without HTTP.

mod chained;
mod custom_core;
#[path = "../../../examples/custom_model.rs"]
#[allow(dead_code, reason = "an example has its own main")]
mod custom_model;
mod deleted_meanwhile;
#[path = "../../../examples/embed.rs"]
#[allow(dead_code, reason = "an example has its own main")]
mod embed;
mod embedded;
mod ended_keys;
mod forgotten;
mod held;
mod kept;
mod left_rows;
mod long_conversations;
mod long_queries;
mod lookups;
mod outage;
mod reading;
mod refolded;
mod removed_tenants;
mod restored;
mod retention;
mod run_costs;
mod schedules;
mod side_by_side;
mod simple_core;
mod spend;
mod stalled;
mod together;
mod transfer;
mod turns;
mod unreadable;
mod wall_time;
#[path = "../../../examples/watch.rs"]
#[allow(dead_code, reason = "an example has its own main")]
mod watch;
mod year;

use crate::support::demo;
use crate::support::store::fresh_store;
use pes::domain::fault::Code;
use pes::service::offers;
use pes::service::threads;
use pes::{AgentProps, Instance};

/// An instance on a store of its own, with the demo model without delays.
async fn instance() -> Instance {
    Instance::build(demo::at_once()).store(fresh_store().await).open().await.unwrap()
}

#[tokio::test]
async fn the_example_with_a_model_of_its_own_answers() {
    assert_eq!(custom_model::answer("Hello").await.unwrap(), "You said “Hello”.");
}

#[tokio::test]
async fn the_example_answers() {
    let answer = embed::ask().await.unwrap();
    assert_eq!(answer.response.content, "You need no umbrella.");
    assert_eq!((answer.metadata.tool_calls, answer.metadata.tool_errors), (1, 0), "its own tool was called");
}

#[tokio::test]
async fn the_example_that_follows_a_run_answers_its_question() {
    let answer = watch::ask("Send the team an invitation to the dinner.").await.unwrap();
    assert!(answer.trim().starts_with("The invitation to the team dinner was written, approved"), "{answer}");
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_says_what_it_waits_for() {
    let instance = instance().await;
    let gated = offers::models(instance.service())[0].prompts[1].clone();
    let fault = instance.process(AgentProps::new("t", gated)).await.unwrap_err();
    assert_eq!(fault.code, Code::Suspended, "{fault:?}");
    let asked = fault.extra.unwrap()["suspensions"][0].clone();
    let answer = serde_json::json!({ "suspensionId": asked["suspensionId"], "approved": true });
    let answer = instance.resume("t", serde_json::from_value(answer).unwrap()).await.unwrap();
    assert_eq!(answer.metadata.tool_calls, 1);
    instance.close().await;
}

#[tokio::test]
async fn an_unknown_model_is_refused_before_anything_starts() {
    let instance = instance().await;
    let mut props = AgentProps::new("t", "hello");
    props.options = serde_json::from_value(serde_json::json!({ "providerConfig": { "modelId": "typo" } })).unwrap();
    instance.process(props).await.unwrap_err();
    let missing = threads::get(instance.service(), instance.caller(), &"t".into()).await.unwrap_err();
    assert_eq!(missing.code, Code::NotFound, "nothing may be stored");
    instance.close().await;
}
