//! kill -9 at every boundary of a delegation: no task is lost, and none is started twice.

use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::stage::CALLER;
use crate::support::http::soon;
use crate::support::process::{Place, Server};

/// The result comes with the response to the message: fetched and not stored, then applied and not yet processed.
#[rstest]
#[case("peer.returned")]
#[case("model.before@3")]
#[tokio::test]
async fn a_result_is_not_lost_and_counts_once(#[case] failpoint: &str) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("COMPLETED");
    let place = Place::sqlite(CALLER);
    place.configure(&format!("[[agents]]\nid = \"helper\"\ncard = \"{}\"\n", peer.card()));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let asked = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    server.must_reach().await;
    server.kill().await;
    let server = Server::start(&place, None).await;
    let ended = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let log = server.address.ask("GET", "/threads/t/events?types=TOOL_EXECUTION").send().await.expect(200);
    assert_eq!((log["items"].as_array().map(Vec::len), peer.told().sent.len()), (Some(1), 1), "{log:#}");
    server.kill().await;
}

/// A person's answer is forwarded, and the process is killed before or after it is sent: the agent receives it once.
#[rstest]
#[case("peer.send@2")]
#[case("peer.sent@2")]
#[tokio::test]
async fn an_answer_reaches_the_agent_once(#[case] failpoint: &str) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("INPUT_REQUIRED");
    let place = Place::sqlite(CALLER);
    place.configure(&format!(
        "delegation = {{ poll_ms = 3600000 }}\n[[agents]]\nid = \"helper\"\ncard = \"{}\"\n",
        peer.card()
    ));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let ask = server.address.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    let asked = ask.json(&json!({ "query": "delegate" })).send().await.expect(202);
    let answer = json!({ "suspensionId": asked["suspensions"][0]["suspensionId"], "value": "the blue one" });
    // The process may stop before it responds.
    let resuming = tokio::spawn(server.address.ask("POST", "/threads/t/resume").json(&answer).send());
    server.must_reach().await;
    server.kill().await;
    resuming.abort();
    let server = Server::start(&place, None).await;
    let events = server.address.ask("GET", "/threads/t/events?types=A2A_TASK").header("accept", "text/event-stream");
    let mut events = events.events().await;
    while events.next().await.expect("it goes on").data["content"]["status"] != "working" {}
    let told = peer.told();
    assert_eq!((told.sent.len(), told.replies.len()), (2, 1));
    assert_eq!(told.sent[1]["message"]["parts"], json!([{ "text": "the blue one" }]));
    let open = server.address.ask("GET", "/suspensions").send().await.expect(200)["items"].clone();
    assert_eq!(open, json!([]), "nobody is asked again");
    server.kill().await;
}

/// The task of another message is not taken for ours.
#[tokio::test]
async fn a_message_that_did_not_go_out_is_not_found_among_others() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::sqlite(CALLER);
    place.configure(&format!("[[agents]]\nid = \"helper\"\ncard = \"{}\"\n", peer.card()));
    let mut server = Server::start(&place, Some("peer.send@2")).await;
    server.address.ask("POST", "/threads/u/process").json(&json!({ "query": "delegate" })).send().await.expect(202);
    peer.until(|told| told.begun.len() == 1).await;
    let asked = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    server.must_reach().await;
    server.kill().await;
    let server = Server::start(&place, None).await;
    let ended = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "suspended", "{ended:#}");
    let open = server.address.ask("GET", "/suspensions").send().await.expect(200)["items"].clone();
    assert_eq!((open.as_array().map(Vec::len), &open[0]["kind"]), (Some(1), &json!("in_doubt")), "{open:#}");
    server.kill().await;
}

/// An agent that lists no tasks cannot be searched: its report arrives, and names the task.
#[tokio::test]
async fn what_nobody_could_find_out_the_report_tells() {
    let peer = Peer::start(Dialect::JsonRpc03).await;
    let place = Place::sqlite(CALLER);
    place.configure(&format!("[[agents]]\nid = \"helper\"\ncard = \"{}\"\n", peer.card()));
    let mut server = Server::start(&place, Some("peer.sent")).await;
    let asked = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    server.must_reach().await;
    server.kill().await;
    let server = Server::start(&place, None).await;
    let ended = async || server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended().await["status"], "suspended");
    let open = server.address.ask("GET", "/suspensions").send().await.expect(200)["items"].clone();
    assert_eq!((open.as_array().map(Vec::len), &open[0]["kind"]), (Some(1), &json!("in_doubt")));
    peer.says("COMPLETED");
    let (_, path, token) = peer.push(0);
    let report = server.address.ask("POST", &path).header("x-a2a-notification-token", &token);
    report.json(&json!({ "kind": "task", "id": "their-1" })).send().await.expect(202);
    assert_eq!(ended().await["status"], "completed");
    let log = server.address.ask("GET", "/threads/t/events?types=TOOL_EXECUTION").send().await.expect(200);
    assert_eq!(log["items"][0]["content"]["output"]["text"], "done by helper", "{log:#}");
    let open = server.address.ask("GET", "/suspensions").send().await.expect(200)["items"].clone();
    assert_eq!((open, peer.told().sent.len()), (json!([]), 1));
    server.kill().await;
}

#[rstest]
#[tokio::test]
async fn a_delegation_survives_and_is_begun_once(
    #[values(
        "peer.before",
        "peer.send",
        "peer.sent",
        "peer.returned",
        "peer.before@2",
        "peer.returned@2",
        "callback.verified"
    )]
    failpoint: &str,
) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::sqlite(CALLER);
    place.configure(&format!(
        "delegation = {{ poll_ms = 50, poll_most_ms = 50 }}\n[[agents]]\nid = \"helper\"\ncard = \"{}\"\n",
        peer.card()
    ));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let asked = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    if failpoint == "callback.verified" {
        peer.until(|told| told.asked > 0).await;
        let (_, path, token) = peer.push(0);
        let ask = server.address.ask("POST", &path).header("x-a2a-notification-token", &token);
        let report = ask.json(&json!({ "task": { "id": "their-1" } })).send();
        tokio::select! {
            _ = report => panic!("it is held before it answers"),
            () = server.reached() => {}
        }
    } else {
        server.must_reach().await;
    }
    server.kill().await;
    let server = Server::start(&place, None).await;
    let page = |path: &str| server.address.ask("GET", path);
    if failpoint == "peer.before" || failpoint == "peer.send" {
        // It was never sent, and nobody here can know: the agent lists its tasks, and ours is not among them.
        let doubt = soon(async {
            loop {
                let open = page("/suspensions").send().await.expect(200);
                match open["items"].get(0) {
                    Some(open) => return open.clone(),
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        assert_eq!(doubt["kind"], "in_doubt", "{doubt:#}");
        assert_eq!(peer.told().begun.len(), 0);
        let again = json!({ "suspensionId": doubt["suspensionId"], "action": "retry" });
        server.address.ask("POST", "/threads/t/resume").json(&again).send().await.expect(202);
    }
    peer.until(|told| !told.begun.is_empty()).await;
    peer.says("COMPLETED");
    let ended = page(&format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let log = page("/threads/t/events?types=TOOL_EXECUTION").send().await.expect(200);
    let results: &Vec<Value> = log["items"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{results:#?}");
    assert_eq!(results[0]["content"]["output"]["text"], "done by helper");
    assert_eq!((peer.told().begun.len(), peer.told().sent.len()), (1, 1));
    server.kill().await;
}
