//! Two servers of ours: one delegates to the other.

use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::{calling, card, ended, knowing, knows, results};
use crate::support::app::App;

/// The callback address is on this machine: the agent may call it, or it refuses to and is polled.
#[rstest]
#[case::that_calls_back(&["127.0.0.0/8"])]
#[case::that_is_asked(&[])]
#[tokio::test]
async fn two_servers_of_ours_work_for_each_other(#[case] allow: &[&str]) {
    let other = App::with(|config| config.egress.allow = allow.iter().map(|rule| (*rule).to_owned()).collect()).await;
    let one = knowing(card(&other), 50).await;
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

/// The agent goes on only after a message, as those of the protocol's own libraries do.
#[tokio::test]
async fn an_answer_about_a_sign_in_reaches_the_agent_behind_another_server() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("AUTH_REQUIRED");
    let script = calling("delegate_to_agent", "{ agentId = 'helper', instructions = 'Look into it.' }");
    let between = App::scripted(&script, |config| knows(config, peer.card(), 20)).await;
    let one = knowing(card(&between), 20).await;
    let asked = one.suspend("t", "delegate").await;
    assert_eq!((&asked["kind"], &asked["message"]), (&json!("peer_auth"), &json!("which one?")));
    let reply = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    one.post("/threads/t/resume", reply).await.expect(202);
    peer.until(|told| !told.replies.is_empty()).await;
    assert_eq!(peer.told().sent[1]["message"]["parts"], json!([{ "text": "done" }]));
    peer.says("COMPLETED");
    let task = one.get("/threads/t/tasks").await.expect(200)["items"][0].clone();
    assert_eq!(ended(&one, task["runId"].as_str().unwrap()).await["status"], "completed");
    assert_eq!(results(&one, "t").await[0]["output"]["text"], "All is done.");
    for app in [&one, &between] {
        let all = app.get("/suspensions?status=all").await.expect(200)["items"].clone();
        let decisions: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["resolution"]["decision"]).collect();
        assert_eq!(decisions, ["answered"], "it is asked once");
    }
    assert_eq!(peer.told().sent.len(), 2);
}

/// The run here is the fifth of a chain of calls: the depth goes with its own call.
#[tokio::test]
async fn agents_that_delegate_to_one_another_come_to_an_end() {
    let other = App::start().await;
    let one = knowing(card(&other), 50).await;
    let run = async |thread: &str, state: &str| {
        let ask = one.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
        let ask = ask.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        ask.header("tracestate", state).json(&json!({ "query": "delegate" })).send().await.expect(200);
        results(&one, thread).await.remove(0)
    };
    assert_eq!(run("t", "pes=4").await["status"], "success");
    let refused = run("u", "pes=5").await;
    assert_eq!(refused["error"]["code"], "peer_refused", "{refused:#}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("too often"), "{refused:#}");
    assert_eq!(one.get("/suspensions?status=all").await.expect(200)["items"], json!([]), "nothing is in doubt");
    assert_eq!(other.get("/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_requires_the_extension_for_questions_takes_work() {
    let other = App::with(|config| config.a2a.requires_questions = true).await;
    let one = knowing(card(&other), 50).await;
    one.finish("t", "delegate").await;
    assert_eq!(results(&one, "t").await[0]["status"], "success");
}

/// What a person chose here arrives there as it is, whatever the form.
#[rstest]
#[case::list("ask_user", "{ question = 'Q', inputType = 'multiselect', options = ['a', 'b', 'c'] }", json!(["c", "a"]))]
#[case::number(
    "ask_user",
    "{ question = 'Q', inputType = 'select', options = [{ value = 1, label = '2' }, { value = 2, label = '1' }] }",
    json!(2)
)]
#[case::object(
    "ask_user",
    "{ question = 'Q', inputType = 'custom', schema = { type = 'object', required = ['value', 'unit'] } }",
    json!({ "value": 7, "unit": "km" })
)]
#[case::text("ask_user", "{ question = 'Q' }", json!(" yes, two spaces "))]
#[tokio::test]
async fn an_answer_of_every_form_reaches_the_server_that_asked(
    #[case] tool: &str,
    #[case] arguments: &str,
    #[case] answer: Value,
) {
    let other = App::scripted(&calling(tool, arguments), |_| {}).await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let reply = json!({ "suspensionId": asked["suspensionId"], "value": answer });
    one.post("/threads/t/resume", reply).await.expect(202);
    let task = one.get("/threads/t/tasks").await.expect(200)["items"][0].clone();
    assert_eq!(ended(&one, task["runId"].as_str().unwrap()).await["status"], "completed");
    assert_eq!(results(&one, "t").await[0]["output"]["text"], "All is done.");
    let theirs = results(&other, task["remoteContextId"].as_str().unwrap()).await;
    assert_eq!((theirs.len(), &theirs[0]["status"]), (1, &json!("success")), "{theirs:#?}");
    assert_eq!(theirs[0]["output"], answer);
}
