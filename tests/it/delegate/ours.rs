//! Two servers of ours: one delegates to the other.

use rstest::rstest;
use serde_json::json;

use super::{knowing, results};
use crate::support::app::App;

/// The callback address is on this machine: the agent may call it, or it refuses to and is polled.
#[rstest]
#[case::that_calls_back(&["127.0.0.0/8"])]
#[case::that_is_asked(&[])]
#[tokio::test]
async fn two_servers_of_ours_work_for_each_other(#[case] allow: &[&str]) {
    let other = App::with(|config| config.egress.allow = allow.iter().map(|rule| (*rule).to_owned()).collect()).await;
    let card = format!("http://{}/.well-known/agent-card.json", other.address);
    let one = knowing(card, 50).await;
    one.finish("t", "delegate").await;
    let result = &results(&one, "t").await[0];
    assert_eq!(result["status"], "success", "{result:#}");
    assert!(!result["output"]["text"].as_str().unwrap().is_empty(), "{result:#}");
    let threads = other.get("/threads").await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(threads.len(), 1, "{threads:#?}");
    let task = one.get("/threads/t/tasks").await.expect(200)["items"][0].clone();
    let theirs = other.get(&format!("/runs/{}", task["remoteTaskId"].as_str().unwrap())).await.expect(200);
    let run = one.get(&format!("/runs/{}", task["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(theirs["traceId"], run["traceId"], "one trace");
    assert_eq!((&theirs["status"], &theirs["threadId"]), (&json!("completed"), &task["remoteContextId"]));
}
