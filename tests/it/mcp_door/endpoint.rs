//! JSON-RPC's own errors, keys, origins and limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::host::{ALL, NEW, OLD};
use crate::support::app::App;
use crate::support::http::{Said, pass};

async fn post(app: &App, body: &str) -> Said {
    app.ask("POST", "/mcp").typed("application/json", body).send().await
}

#[tokio::test]
async fn what_is_no_request_is_told_apart() {
    let app = App::start().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (body, status, code, id) in [
        ("{", 400, -32700, Value::Null),
        ("", 400, -32700, Value::Null),
        (r#"{"a":1,"a":2}"#, 400, -32700, Value::Null),
        (deep.as_str(), 400, -32700, Value::Null),
        ("[]", 400, -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600, Value::Null),
        ("7", 400, -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600, json!(1)),
        (r#"{"id":"a","method":"ping"}"#, 400, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 400, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, 400, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"explode"}"#, 200, -32601, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, 200, -32601, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, 200, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"explode"}}"#, 200, -32602, json!(1)),
    ] {
        let answer = post(&app, body).await.expect(status);
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{body}: {answer:#}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    let answer = post(&app, r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).await.expect(200);
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
}

#[tokio::test]
async fn nothing_is_said_to_a_notification() {
    let app = App::start().await;
    for method in ["notifications/initialized", "notifications/cancelled", "explode"] {
        let said = post(&app, &json!({ "jsonrpc": "2.0", "method": method }).to_string()).await;
        assert_eq!((said.status, said.text()), (202, String::new()), "{method}");
    }
}

/// There is no stream without a request, and no session to end.
#[tokio::test]
async fn there_is_nothing_but_posts() {
    let app = App::start().await;
    for verb in ["GET", "DELETE", "PUT"] {
        let said = app.ask(verb, "/mcp").header("accept", "text/event-stream").send().await;
        assert_eq!(said.header("allow"), Some("POST"), "{verb}");
        assert_eq!(said.expect(405)["error"]["code"], -32600, "{verb}");
    }
    let said = OLD.request(&app, "ping", json!({})).send().await;
    assert_eq!(said.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_body_is_bounded_and_is_json() {
    let app = App::with(|config| config.limits.body_bytes = 2_000).await;
    let long = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "a": "x".repeat(2_000) } });
    let refused = post(&app, &long.to_string()).await.expect(413);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["code"]),
        (&json!(-32600), &json!("body_too_large"))
    );
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let said = app.ask("POST", "/mcp").typed("text/plain", ping).send().await;
    assert_eq!(said.expect(415)["error"]["data"]["code"], "unsupported_media_type");
}

#[tokio::test]
async fn a_key_is_asked_for() {
    let app = App::with_keys().await;
    for (key, challenge) in [(None, "Bearer"), (Some("wrong"), "Bearer error=\"invalid_token\"")] {
        let ask = OLD.request(&app, "tools/list", json!({}));
        let ask = key.map_or(ask.clone(), |key| ask.key(key));
        let said = ask.send().await;
        assert_eq!(said.header("www-authenticate"), Some(challenge));
        assert_eq!(said.expect(401)["error"]["data"]["code"], "unauthorized", "{key:?}");
    }
    // Where no key is needed, any key is accepted: hosts always send the key that they were given.
    let open = App::start().await;
    let said = OLD.request(&open, "tools/list", json!({})).key("any").send().await;
    assert!(said.expect(200)["result"]["tools"].is_array());
}

/// Any page can make requests with the browser of somebody who has a key.
#[tokio::test]
async fn a_page_of_another_origin_is_refused_with_a_key_too() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    for (header, value) in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        let said = OLD.request(&app, "tools/list", json!({})).header(header, value).send().await;
        assert_eq!(said.expect(403)["error"]["data"]["code"], "origin_refused", "{value}");
    }
    let own = format!("http://{}", app.address);
    OLD.request(&app, "tools/list", json!({})).header("origin", &own).send().await.expect(200);

    let app = App::with(|config| config.server.cors_origins.push("https://host.example".to_owned())).await;
    let said = NEW.request(&app, "tools/list", json!({})).header("origin", "https://host.example").send().await;
    assert_eq!(said.header("access-control-allow-origin"), Some("https://host.example"));
    said.expect(200);
    let asked = app.ask("OPTIONS", "/mcp").header("origin", "https://host.example");
    let asked = asked.header("access-control-request-method", "POST");
    let said = asked.header("access-control-request-headers", "mcp-protocol-version").send().await;
    let allowed = said.header("access-control-allow-headers").unwrap();
    for name in ["mcp-method", "mcp-name", "mcp-protocol-version"] {
        assert!(allowed.contains(name), "{allowed}");
    }
}

#[tokio::test]
async fn an_answer_says_its_request_and_its_run() {
    let app = App::start().await;
    for host in ALL {
        let said = host.request(&app, "tools/call", json!({ "name": "ask", "arguments": { "query": "hello" } }));
        let said = said.send().await;
        assert_eq!(said.header("x-request-id").unwrap().len(), 32);
        let run = said.header("x-pes-run").unwrap();
        assert!(said.text().contains(run), "{}", said.text());
        assert!(said.header("x-pes-thread").unwrap().starts_with("mcp-"));
        assert_eq!(said.header("cache-control"), Some("no-store"));
    }
}

/// A client may list the tools before it hands on the result of a call that the stop has ended.
#[tokio::test]
async fn a_stopping_server_starts_and_changes_nothing_and_answers_what_only_reads() {
    const DRAIN: Duration = Duration::from_secs(600);
    let app = App::with(|config| config.runtime.drain_ms = DRAIN.as_millis().try_into().unwrap()).await;
    let run = NEW.data(&app, "start", json!({ "query": "hang", "thread": "t1" })).await["runId"].clone();
    let mut socket = app.socket("/threads/t1/events").await;
    socket.until(|frame| frame["event"] == "token").await;
    app.stop();
    socket.until(|frame| frame["event"] == "draining").await;
    for host in ALL {
        assert!(host.say(&app, "tools/list", json!({})).await["result"]["tools"].is_array());
        assert_eq!(host.data(&app, "status", json!({ "runId": run })).await["status"], "running");
        let changes = [
            ("ask", json!({ "query": "hello" })),
            ("start", json!({ "query": "hello" })),
            ("cancel", json!({ "runId": run })),
            ("answer", json!({ "suspensionId": "sus_1", "approved": true })),
        ];
        for (tool, arguments) in changes {
            let said = host.request(&app, "tools/call", json!({ "name": tool, "arguments": arguments })).send().await;
            assert_eq!(said.expect(503)["error"]["data"]["code"], "draining", "{tool}");
        }
    }
    pass(DRAIN).await;
    app.stopped().await;
}
