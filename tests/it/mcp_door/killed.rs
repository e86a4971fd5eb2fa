//! kill -9 while a call waits: another process continues the run, and a host needs only its id.

use serde_json::{Value, json};

use crate::support::http::Ask;
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};

fn call(server: &Server, tool: &str, arguments: &Value) -> Ask {
    let params = json!({ "name": tool, "arguments": arguments });
    server
        .address
        .ask("POST", "/mcp")
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
}

/// The result of a call that is answered at once, or by events.
async fn result(ask: Ask) -> Value {
    let said = ask.send().await;
    assert_eq!(said.status, 200, "{}", said.text());
    let text = said.text();
    let last = text.trim_end().rsplit_once("data: ").map_or(text.as_str(), |(_, last)| last);
    serde_json::from_str::<Value>(last).expect("JSON")["result"].clone()
}

fn is_whole(result: &Value) {
    assert_eq!(result["structuredContent"]["answer"], "All of it is done now.", "{result:#}");
}

#[tokio::test]
async fn a_run_is_waited_for_again_after_a_crash() {
    let (place, mut slow) = Slow::on(Place::sqlite(SCRIPT)).await;
    let server = Server::start(&place, None).await;
    let ask = json!({ "query": "work", "idempotencyKey": "k" });
    let cut = call(&server, "ask", &ask).events().await;
    slow.is_called().await;
    server.kill().await;
    assert_eq!(cut.broken_off().await, []);
    let server = Server::start(&place, None).await;
    slow.is_called().await;
    let run = result(call(&server, "start", &ask)).await["structuredContent"]["runId"].clone();
    let again = call(&server, "ask", &ask).events().await;
    slow.ends();
    let told = again.all().await.pop().unwrap().data["result"].clone();
    is_whole(&told);
    assert_eq!(told["structuredContent"]["runId"], run, "the same key is the same run");
    is_whole(&result(call(&server, "status", &json!({ "runId": run }))).await);
    server.kill().await;
}

#[tokio::test]
async fn another_process_waits_on_when_the_first_is_killed() {
    let (place, mut slow) = Slow::on(Place::postgres(SCRIPT).await).await;
    let owner = Server::start(&place, None).await;
    let run = result(call(&owner, "start", &json!({ "query": "work" }))).await["structuredContent"]["runId"].clone();
    slow.is_called().await;
    let other = Server::start(&place, None).await;
    let waits = call(&other, "status", &json!({ "runId": run, "wait": 45 })).events().await;
    owner.kill().await;
    slow.is_called().await;
    slow.ends();
    is_whole(&waits.all().await.pop().unwrap().data["result"]);

    // A question that one process has asked is answered at another.
    let asked = result(call(&other, "ask", &json!({ "query": "ask" }))).await["structuredContent"].clone();
    assert_eq!(asked["status"], "suspended", "{asked:#}");
    let third = Server::start(&place, None).await;
    let answer = json!({ "suspensionId": asked["suspensions"][0]["suspensionId"], "value": "this one" });
    result(call(&third, "answer", &answer)).await;
    is_whole(&result(call(&third, "status", &json!({ "runId": asked["runId"], "wait": 45 }))).await);
    third.kill().await;
    other.kill().await;
}
