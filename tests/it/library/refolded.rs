//! After a log was shortened past a cached fold, states, copies and the next base are still complete.

use pes::domain::ids::ThreadId;
use pes::service::fork;
use serde_json::{Value, json};

use crate::support::clocked::Clocked;
use crate::support::http::soon;
use crate::support::store::fresh_store;

/// More observations than lie between two cached folds, and a partial distance after them.
const ENTRIES: i64 = 700;

#[tokio::test]
async fn what_lies_between_a_kept_fold_and_the_beginning_is_not_left_out() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let thread: ThreadId = "t".into();
    let last = async |from: i64| clocked.page("t", from).await.unwrap().last_seq;
    clocked.finish("t").await;
    while last(0).await < ENTRIES {
        clocked.finish("t").await;
    }
    clocked.days_pass(91).await;
    assert!(clocked.page("t", 0).await.unwrap().min_seq > ENTRIES, "it was shortened to its end");
    clocked.finish("t").await;
    let (end, messages) = (last(0).await, contents(&clocked.messages("t").await));
    let state = clocked.state("t", None).await.unwrap();
    let then = clocked.state("t", Some(end)).await.unwrap();
    assert_eq!((&then["todoList"], &then["messageCount"]), (&state["todoList"], &state["messageCount"]));
    let copied = async |id: &str| {
        soon(fork::fork(service, caller, &thread, Some(end), Some(id.into()), None)).await.unwrap();
        contents(&clocked.messages(id).await)
    };
    assert_eq!(copied("copy").await, messages);
    // The next base is made from the previous one.
    clocked.days_pass(91).await;
    assert!(clocked.page("t", 0).await.unwrap().min_seq > end);
    clocked.finish("t").await;
    let end = last(0).await;
    soon(fork::fork(service, caller, &thread, Some(end), Some("later".into()), None)).await.unwrap();
    assert_eq!(contents(&clocked.messages("later").await), contents(&clocked.messages("t").await));
    clocked.instance.close().await;
}

fn contents(messages: &Value) -> Vec<Value> {
    messages.as_array().unwrap().iter().map(|message| json!([message["role"], message["content"]])).collect()
}
