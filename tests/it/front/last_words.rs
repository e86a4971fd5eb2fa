//! A door's stream that is cut short ends with its wire's error event: clients take a stream that just stops for one
//! that ended well.

use pes::config::Config;
use serde_json::{Value, json};

use crate::mcp_door::host::NEW;
use crate::support::app::App;
use crate::support::http::{Ask, Events, soon};

const ADMIN: &str = "key-a-0123456789abcdef0123456789";

fn asked(app: &App, key: Option<&str>, path: &str, body: &Value) -> Ask {
    let ask = app.ask("POST", path).json(body);
    match key {
        Some(key) => ask.key(key),
        None => ask,
    }
}

fn mcp(id: i64) -> Value {
    let params = json!({ "name": "ask", "arguments": { "query": "hang", "wait": 60 } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn a2a() -> Value {
    json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hang" }] } })
}

/// An endless stream of each door, already started.
async fn streams(app: &App, key: Option<&str>) -> Vec<(&'static str, Events)> {
    let said = json!([{ "role": "user", "content": "hang" }]);
    let user = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "hang" }] });
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": a2a() });
    let mut streams = Vec::new();
    for (path, body) in [
        ("/v1/chat/completions", json!({ "model": "pes", "stream": true, "messages": said })),
        ("/v1/responses", json!({ "model": "pes", "stream": true, "input": "hang" })),
        ("/api/chat", json!({ "id": "ai", "messages": [user] })),
        ("/agui", json!({ "threadId": "ag", "runId": "r", "messages": said })),
        ("/mcp", mcp(1)),
        ("/a2a", rpc),
        ("/a2a/message:stream", a2a()),
    ] {
        let ask = asked(app, key, path, &body).header("a2a-version", "1.0");
        streams.push((path, ask.events().await));
    }
    streams
}

/// The last event of each stream, apart from the end marker that some wires have.
async fn ends(streams: Vec<(&'static str, Events)>) -> Vec<(&'static str, Value)> {
    let mut ends = Vec::new();
    for (path, mut events) in streams {
        let mut last = Value::Null;
        while let Some(event) = soon(events.next()).await {
            if event.data != "[DONE]" {
                last = event.data;
            }
        }
        ends.push((path, last));
    }
    ends
}

fn is_error_of(path: &str, last: &Value, what: &str) {
    let says = |text: &Value| text.as_str().is_some_and(|text| text.contains(what));
    let fits = match path {
        "/v1/chat/completions" => says(&last["error"]["message"]) && last["error"]["type"].is_string(),
        "/v1/responses" => {
            let failed = last["type"] == "response.failed" && says(&last["response"]["error"]["message"]);
            failed || (last["type"] == "error" && says(&last["message"]))
        }
        "/api/chat" => last["type"] == "error" && says(&last["errorText"]),
        "/agui" => last["type"] == "RUN_ERROR" && says(&last["message"]) && last["code"].is_string(),
        "/mcp" => last["id"] == 1 && says(&last["error"]["message"]),
        "/a2a" => last["id"] == 1 && last["error"]["code"].is_i64() && says(&last["error"]["message"]),
        "/a2a/message:stream" => last["error"]["status"].is_string() && says(&last["error"]["message"]),
        other => panic!("{other}"),
    };
    assert!(fits, "{path}: {last:#}");
}

#[tokio::test]
async fn whose_key_is_revoked_is_told_so() {
    let app = App::with(|config: &mut Config| {
        config.auth.keys = vec![format!("one/admin-a:admin:{ADMIN}").parse().unwrap()];
        config.doors.chat_grace_ms = 1;
    })
    .await;
    let admin = |ask: Ask| ask.key(ADMIN);
    let new = json!({ "tenant": "one", "name": "page", "scopes": ["read", "run"] });
    let issued = admin(app.ask("POST", "/keys")).json(&new).send().await.expect(201);
    let streams = streams(&app, issued["key"].as_str()).await;
    let call = NEW.request(&app, "tools/call", json!({ "name": "ask", "arguments": { "query": "hang", "wait": 60 } }));
    let call = call.key(issued["key"].as_str().unwrap()).events().await;
    let revoke = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    assert_eq!(admin(app.ask("DELETE", &revoke)).send().await.status, 204);
    for (path, last) in ends(streams).await {
        is_error_of(path, &last, "revoked");
    }
    assert!(soon(call.all()).await[0].data["error"].is_object(), "the server closes it");
    // The run continues, even for wires where a disconnect cancels it: it was requested while the key was valid.
    let runs = admin(app.ask("GET", "/runs?limit=200")).send().await.expect(200);
    let runs = runs["items"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap());
    // Long enough for a cancelled run to have ended.
    let stand = runs.map(|run| admin(app.ask("GET", &format!("/runs/{run}?wait=1"))).send());
    let stand = futures_util::future::join_all(stand).await;
    assert!(stand.len() >= 7, "{}", stand.len());
    for run in stand {
        assert_eq!(run.expect(200)["status"], "running", "{}", run.text());
    }
}

#[tokio::test]
async fn who_listens_to_a_server_that_stops_is_told_so() {
    let app = App::start().await;
    let streams = streams(&app, None).await;
    app.stop();
    for (path, last) in ends(streams).await {
        match path {
            // The call then has a result: it says how to get the rest.
            "/mcp" => assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(false)), "{last:#}"),
            path => is_error_of(path, &last, "stopping"),
        }
    }
}

#[tokio::test]
async fn who_listens_to_a_thread_that_is_erased_is_told_so() {
    let app = App::start().await;
    let streams = streams(&app, None).await;
    let threads = app.get("/threads?limit=200").await.expect(200);
    for thread in threads["items"].as_array().unwrap() {
        let path = format!("/threads/{}", thread["threadId"].as_str().unwrap());
        assert_eq!(app.ask("DELETE", &path).send().await.status, 204);
    }
    for (path, last) in ends(streams).await {
        match path {
            // The call then has a result for the model.
            "/mcp" => assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(true)), "{last:#}"),
            path => is_error_of(path, &last, "erased"),
        }
    }
}
