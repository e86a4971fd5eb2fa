//! How a version is negotiated, and what each version requires.

use serde_json::{Value, json};

use super::host::{ALL, MIDDLE, NEW, OLD};
use crate::support::app::App;

#[tokio::test]
async fn what_initialize_asks_for_is_what_is_spoken() {
    let app = App::start().await;
    for (asked, spoken) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("3000-01-01", "2025-11-25"),
    ] {
        let client = json!({ "name": "t", "version": "1" });
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": client });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let result = app.post("/mcp", body).await.expect(200)["result"].clone();
        assert_eq!(result["protocolVersion"], spoken, "{asked}");
        assert_eq!(result["capabilities"], json!({ "tools": {} }));
        assert_eq!(result["serverInfo"]["title"], "PES Agent");
        assert!(result.get("resultType").is_none());
    }
}

#[tokio::test]
async fn who_does_not_initialize_discovers() {
    let app = App::start().await;
    let found = NEW.say(&app, "server/discover", json!({})).await["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]));
    assert_eq!(found["resultType"], "complete");
    assert_eq!((&found["ttlMs"], &found["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pes");
    // An older client probes without the fields that the newer version requires.
    let refused = OLD.request(&app, "server/discover", json!({})).send().await.expect(400);
    assert_eq!(refused["error"]["code"], -32602, "{refused:#}");
}

#[tokio::test]
async fn each_version_gets_its_own_form() {
    let app = App::start().await;
    for host in ALL {
        let result = host.say(&app, "tools/list", json!({})).await["result"].clone();
        for member in ["resultType", "ttlMs", "cacheScope"] {
            assert_eq!(result.get(member).is_some(), host.is_new(), "{host:?} {member}");
        }
        let ping = host.request(&app, "ping", json!({})).send().await;
        assert_eq!(ping.status, if host.is_new() { 404 } else { 200 }, "{host:?}");
        let unknown = host.request(&app, "explode", json!({})).send().await;
        let refused = unknown.expect(if host.is_new() { 404 } else { 200 });
        assert_eq!(refused["error"]["code"], -32601, "{host:?}");
    }
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn headers_and_body_must_say_the_same() {
    let app = App::start().await;
    let call = json!({ "name": "status", "arguments": { "runId": "run_x" }, "_meta": meta("2026-07-28") });
    let version = ("mcp-protocol-version", "2026-07-28");
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "status"));
    let encoded = ("mcp-name", "=?base64?c3RhdHVz?=");
    for (headers, params, code) in [
        (vec![version, method, name], call.clone(), None),
        (vec![version, method, encoded], call.clone(), None),
        (vec![method, name], call.clone(), Some(-32020)),
        (vec![("mcp-protocol-version", "2025-11-25"), method, name], call.clone(), Some(-32020)),
        (vec![version, version, method, name], call.clone(), Some(-32020)),
        (vec![version, name], call.clone(), Some(-32020)),
        (vec![version, ("mcp-method", "tools/list"), name], call.clone(), Some(-32020)),
        (vec![version, method], call.clone(), Some(-32020)),
        (vec![version, method, ("mcp-name", "cancel")], call.clone(), Some(-32020)),
        (vec![version, method, name, name], call.clone(), Some(-32020)),
        (vec![version, method, name], json!({ "name": "status" }), Some(-32602)),
        (
            vec![version, method, name],
            json!({ "name": "status", "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } }),
            Some(-32602),
        ),
        (
            vec![("mcp-protocol-version", "3000-01-01"), method, name],
            json!({ "name": "status", "_meta": meta("3000-01-01") }),
            Some(-32022),
        ),
        (vec![("mcp-protocol-version", "1999-01-01")], json!({ "name": "status" }), Some(-32022)),
    ] {
        let ask = headers.iter().fold(app.ask("POST", "/mcp"), |ask, (name, value)| ask.header(name, value));
        let body = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params });
        let answer = ask.json(&body).send().await;
        match code {
            None => assert!(answer.expect(200)["result"]["isError"].as_bool().unwrap(), "{headers:?}"),
            Some(code) => {
                let refused = answer.expect(400);
                assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(code), &json!(3)), "{headers:?}");
                if code == -32022 {
                    assert_eq!(refused["error"]["data"]["supported"][3], "2026-07-28");
                }
            }
        }
    }
}

/// Up to 2025-11-25 the version is only in a header, or absent.
#[tokio::test]
async fn an_older_client_needs_no_more_than_a_header() {
    let app = App::start().await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert!(app.post("/mcp", list).await.expect(200)["result"]["tools"].is_array());
    for host in [OLD, MIDDLE] {
        assert_eq!(host.call(&app, "ask", json!({ "query": "hello" })).await["isError"], false);
    }
}
