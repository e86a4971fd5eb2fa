//! One delegation from its start to each possible end.

use rstest::rstest;
use serde_json::json;

use super::peer::{Dialect, Peer};
use super::{app, delegated, ended, knows, results, status};
use crate::support::app::App;
use crate::support::http::soon;

/// Longer than any test.
const NEVER: i64 = 3_600_000;

#[tokio::test]
async fn the_planner_is_told_of_the_agent_and_its_skills() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let offered = soon(async {
        loop {
            let tools = app.get("/tools").await.expect(200);
            let tool =
                tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "delegate_to_agent").cloned();
            let tool = tool.expect("there is an agent, so there is the tool");
            if tool["description"].as_str().unwrap().contains("skill help") {
                return tool;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(offered["inputSchema"]["properties"]["agentId"]["enum"], json!(["helper"]));
    let none = crate::support::app::App::start().await;
    assert!(!none.get("/tools").await.expect(200).to_string().contains("delegate_to_agent"));
}

#[tokio::test]
async fn a_run_waits_for_an_agent_with_nothing_in_memory_and_its_result_comes_back() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, task) = delegated(&app, "t").await;
    assert_eq!(app.get(&format!("/runs/{run}")).await.expect(200)["status"], "waiting");
    let state = app.get("/threads/t/state").await.expect(200);
    assert_eq!(state["pendingA2ATasks"]["taskIds"], json!([task]));
    assert_eq!(state["a2aWaits"][0]["agentId"], "helper");
    assert_eq!(state["todoList"][0]["status"], "waiting");
    let shown = app.get(&format!("/tasks/{task}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["remoteTaskId"]), (&json!("working"), &json!("their-1")));
    let sent = peer.told().sent[0].clone();
    assert_eq!(sent["configuration"]["returnImmediately"], true);
    assert_eq!(sent["configuration"]["historyLength"], 0, "our own message is not sent back");
    assert_eq!(sent["message"]["parts"], json!([{ "text": "Look into it." }, { "data": { "n": 7 } }]));
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    let result = &results(&app, "t").await[0];
    assert_eq!(result["output"]["text"], "done by helper");
    let shown = app.get(&format!("/tasks/{task}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["result"]["output"]["text"]), (&json!("completed"), &json!("done by helper")));
    for list in ["/threads/t/tasks", "/tasks"] {
        assert_eq!(app.get(list).await.expect(200)["items"], json!([shown]), "{list}");
    }
    assert_eq!(peer.reports(0).await.status, 202, "also when it is over");
    assert_eq!(results(&app, "t").await.len(), 1);
}

#[tokio::test]
async fn what_the_agent_asks_is_asked_here_and_the_answer_goes_to_its_task() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, task) = delegated(&app, "t").await;
    peer.says("INPUT_REQUIRED");
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    assert_eq!(peer.reports(0).await.status, 202);
    status(&mut socket, "input_required").await;
    let asked = app.get("/suspensions").await.expect(200)["items"][0].clone();
    assert_eq!((&asked["kind"], &asked["message"]), (&json!("peer_input"), &json!("which one?")));
    let answer = json!({ "suspensionId": asked["suspensionId"], "value": "the blue one" });
    app.post("/threads/t/resume", answer).await.expect(202);
    peer.until(|told| told.sent.len() == 2).await;
    let reply = peer.told().sent[1]["message"].clone();
    assert_eq!((&reply["taskId"], &reply["contextId"]), (&json!("their-1"), &json!("context-their-1")));
    assert_eq!(reply["parts"], json!([{ "text": "the blue one" }]));
    status(&mut socket, "working").await;
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(app.get(&format!("/tasks/{task}")).await.expect(200)["status"], "completed");
}

/// The response to the answer is lost, and the agent does not show which messages it has.
#[tokio::test]
async fn an_answer_that_may_have_arrived_does_not_answer_the_next_question() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 20).await;
    let (run, _) = delegated(&app, "t").await;
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    peer.becomes(|told| (told.has_no_history, told.asks_on, told.loses) = (true, true, 1));
    peer.says("INPUT_REQUIRED");
    let mut answer = async |value: &str| {
        status(&mut socket, "input_required").await;
        let open = app.get("/suspensions").await.expect(200)["items"].clone();
        assert_eq!((open.as_array().map(Vec::len), &open[0]["kind"]), (Some(1), &json!("peer_input")), "{open:#}");
        let id = open[0]["suspensionId"].clone();
        app.post("/threads/t/resume", json!({ "suspensionId": id, "value": value })).await.expect(202);
        status(&mut socket, "working").await;
        id
    };
    let first = answer("yes").await;
    peer.becomes(|told| told.asks_on = false);
    let second = answer("no").await;
    assert_ne!(first, second, "it is another question");
    let sent: Vec<_> = peer.told().sent.iter().skip(1).map(|sent| sent["message"]["parts"].clone()).collect();
    assert_eq!(sent, [json!([{ "text": "yes" }]), json!([{ "text": "no" }])]);
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
}

/// Somebody answered the agent elsewhere, and the agent has ended the task.
#[tokio::test]
async fn an_answer_that_comes_too_late_does_not_end_the_task() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.says("INPUT_REQUIRED");
    assert_eq!(peer.reports(0).await.status, 202);
    let asked = app.asked("t").await;
    peer.becomes(|told| (told.state, told.refuses_answers) = ("COMPLETED", Some((-32004, "it asks nothing"))));
    let late = json!({ "suspensionId": asked["suspensionId"], "value": "the blue one" });
    app.post("/threads/t/resume", late).await.expect(202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    let results = results(&app, "t").await;
    assert_eq!((results.len(), &results[0]["output"]["text"]), (1, &json!("done by helper")), "{results:#?}");
    assert_eq!(peer.told().cancelled, [""; 0], "it is not told to stop");
}

/// The agent waits still, so the next answer may be right.
#[tokio::test]
async fn an_answer_that_the_agent_refuses_with_an_error_is_asked_for_again_with_its_reason() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.says("INPUT_REQUIRED");
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    assert_eq!(peer.reports(0).await.status, 202);
    peer.becomes(|told| told.refuses_answers = Some((-32602, "Say a colour.")));
    let mut answer = async |message: &str| {
        status(&mut socket, "input_required").await;
        let open = app.get("/suspensions").await.expect(200)["items"].clone();
        assert_eq!((open.as_array().map(Vec::len), &open[0]["message"]), (Some(1), &json!(message)));
        let answer = json!({ "suspensionId": open[0]["suspensionId"], "value": "blue" });
        app.post("/threads/t/resume", answer).await.expect(202);
    };
    answer("which one?").await;
    peer.until(|told| told.refused == 1).await;
    peer.becomes(|told| told.refuses_answers = None);
    answer("which one?\nhelper refused the last answer: Say a colour.").await;
    peer.until(|told| told.replies.len() == 1).await;
    status(&mut socket, "working").await;
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(peer.told().sent[1]["message"]["parts"], json!([{ "text": "blue" }]));
}

/// The agent says its answer while it works, and ends the task without another word.
#[tokio::test]
async fn an_answer_that_only_the_history_has_is_the_result() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.ends_without_a_word = true);
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    let expected = json!({ "text": "said by helper", "message": [{ "text": "said by helper" }] });
    assert_eq!(results(&app, "t").await[0]["output"], expected);
}

#[tokio::test]
async fn a_cancelled_run_cancels_the_agents_task() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, task) = delegated(&app, "t").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-1"]).await;
    assert_eq!(ended(&app, &run).await["status"], "cancelled");
    assert_eq!(app.get(&format!("/tasks/{task}")).await.expect(200)["status"], "canceled");
}

/// A key that was being replaced is valid again in a minute.
#[rstest]
#[case::that_named_the_task(0)]
#[case::that_has_not_answered_yet(1)]
#[tokio::test]
async fn an_agent_that_takes_no_key_for_a_while_is_told_of_a_cancelled_run_again(#[case] silent: usize) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.silent = silent);
    let app = app(&peer, 20).await;
    let receipt = app.post("/threads/t/process", json!({ "query": "delegate" })).await.expect(202);
    let run = receipt["runId"].as_str().unwrap();
    peer.until(|told| if silent == 0 { told.asked > 0 } else { !told.sent.is_empty() }).await;
    peer.becomes(|told| told.locked = true);
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    assert_eq!(ended(&app, run).await["status"], "cancelled", "that does not wait for the agent");
    let refused = peer.told().refused;
    peer.until(|told| told.refused > refused + 6).await;
    peer.becomes(|told| told.locked = false);
    peer.until(|told| told.cancelled == ["their-1"]).await;
}

#[tokio::test]
async fn one_task_is_cancelled_and_its_item_goes_on() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, task) = delegated(&app, "t").await;
    for _ in 0..2 {
        let shown = app.ask("POST", &format!("/tasks/{task}/cancel")).send().await.expect(200);
        assert_eq!(shown["status"], "canceled");
    }
    peer.until(|told| told.cancelled == ["their-1"]).await;
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "cancelled");
    app.get("/tasks/task_nobody").await.problem("not_found");
}

#[tokio::test]
async fn an_agent_that_refuses_and_one_that_is_not_there_are_told_to_the_model() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("REJECTED");
    let app = app(&peer, NEVER).await;
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "peer_rejected");
}

/// It would be as large at every poll.
#[tokio::test]
async fn a_result_that_is_too_large_to_be_read_ends_the_call_at_once() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = App::with(|config| {
        knows(config, peer.card(), 20);
        config.limits.tool_output_bytes = 64 << 10;
    })
    .await;
    let (run, _) = delegated(&app, "t").await;
    peer.becomes(|told| (told.state, told.result_bytes) = ("COMPLETED", 1 << 20));
    assert_eq!(ended(&app, &run).await["status"], "completed");
    let error = results(&app, "t").await[0]["error"].clone();
    assert_eq!(error["code"], "peer_failed");
    let why = "The agent's answer is larger than 262144 bytes, which is more than can be read.";
    assert_eq!(error["message"], why);
    peer.until(|told| told.cancelled == ["their-1"]).await;
}
