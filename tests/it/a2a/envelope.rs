//! JSON-RPC's own errors, keys and paths.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;

async fn rpc(app: &App, body: &str) -> Said {
    app.ask("POST", "/a2a").header("a2a-version", "1.0").typed("application/json", body).send().await
}

#[tokio::test]
async fn what_is_no_request_is_told_apart() {
    let app = App::start().await;
    for (body, code, id) in [
        ("{", -32700, Value::Null),
        ("", -32700, Value::Null),
        (r#"{"a":1,"a":2}"#, -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]"#, -32600, Value::Null),
        ("7", -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, -32600, json!(1)),
        (r#"{"id":"a","method":"GetTask"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","method":"GetTask","params":{"id":"x"}}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Explode"}"#, -32601, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#, -32601, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":"b","method":"GetTask","params":{"id":"x"}}"#, -32001, json!("b")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"x"}}"#, -32001, Value::Null),
    ] {
        let answer = rpc(&app, body).await.expect(200);
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{body}: {answer:#}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    // Without a version it is 0.3, which has other method names.
    let call = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": "x" } });
    assert_eq!(app.post("/a2a", call("GetTask")).await.expect(200)["error"]["code"], -32601);
    assert_eq!(app.post("/a2a", call("tasks/get")).await.expect(200)["error"]["code"], -32001);
    assert_eq!(app.post("/a2a/", call("tasks/get")).await.expect(200)["error"]["code"], -32001);
}

#[tokio::test]
async fn a_key_is_asked_for_in_the_shape_of_the_binding() {
    let app = App::with_keys().await;
    let said = rpc(&app, r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#).await;
    assert_eq!(said.header("www-authenticate"), Some("Bearer"));
    assert_eq!(said.expect(401)["error"]["data"][0]["reason"], "UNAUTHENTICATED");
    for (verb, path) in [("GET", "/a2a/tasks"), ("POST", "/a2a/message:send"), ("GET", "/a2a/nowhere/at/all")] {
        let said = app.ask(verb, path).header("authorization", "Bearer wrong").send().await;
        assert_eq!(said.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
        assert_eq!(said.expect(401)["error"]["status"], "UNAUTHENTICATED", "{verb} {path}");
    }
}

/// First the scope is checked, then the length allowed for it, then the body is parsed.
#[tokio::test]
async fn a_key_that_may_only_look_is_not_listened_to_for_long() {
    let app = App::with_keys().await.key("reader-0123456789abcdef0123456789");
    let long = "x".repeat(200 << 10);
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": long }] });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
    let answer = rpc(&app, &body.to_string()).await.expect(200);
    assert_eq!(answer["error"]["code"], -32600, "{answer:#}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("65536 bytes"), "{answer:#}");
    // Where the path names the operation, no byte of the body is read: this one is not JSON.
    for path in ["/a2a/message:send", "/a2a/message:stream", "/a2a/tasks/run_1:cancel"] {
        app.ask("POST", path).typed("application/json", "{").send().await.expect(403);
    }
    let app = app.key("key-a-0123456789abcdef0123456789");
    assert!(rpc(&app, &body.to_string()).await.expect(200)["result"].is_object());
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_told_in_the_protocols_words() {
    let app = App::start().await;
    for (verb, path) in
        [("GET", "/a2a/nowhere"), ("PUT", "/a2a/tasks/x"), ("POST", "/a2a/tasks/x"), ("GET", "/a2a/v1/tasks")]
    {
        let refused = app.ask(verb, path).send().await.expect(404);
        assert_eq!(refused["error"]["details"][0]["reason"], "METHOD_NOT_FOUND", "{verb} {path}");
    }
    let refused = app.get("/a2a").await.expect(405);
    assert_eq!(refused["error"]["code"], -32601, "{refused:#}");
}

#[tokio::test]
async fn a_server_that_is_no_agent_has_no_such_door() {
    let app = App::with(|config| config.a2a.enabled = false).await;
    app.get("/.well-known/agent-card.json").await.problem("not_found");
    let answer = rpc(&app, r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#).await.expect(200);
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(app.get("/a2a/tasks").await.status, 404);
}
