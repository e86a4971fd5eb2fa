//! `/mcp-servers`: what administrators see and do, each in their own tenant.

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use super::bed::evil;
use super::endpoint::Endpoint;
use crate::support::app::App;
use crate::support::http::Ask;

const ADMIN: &str = "key-a-0123456789abcdef0123456789";
const OTHER: &str = "key-b-0123456789abcdef0123456789";
const READER: &str = "reader-0123456789abcdef0123456789";

/// A server with two tenants, one operator's MCP server, and permission to call this machine.
async fn app(folder: &std::path::Path, allow: &[String]) -> App {
    let key = |text: String| text.parse::<ConfiguredKey>().expect("a key");
    App::with(|config| {
        config.auth.keys = vec![
            key(format!("one:admin:{ADMIN}")),
            key(format!("two:admin:{OTHER}")),
            key(format!("one:read:{READER}")),
        ];
        config.egress.allow = allow.to_vec();
        config.mcp.tenant_env = vec!["CARGO_PKG_N*".to_owned()];
        config.mcp.servers.insert("evil".to_owned(), evil(folder));
    })
    .await
    .key(ADMIN)
}

#[tokio::test]
async fn the_operators_servers_are_listed_and_can_be_switched_off_for_one_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path(), &[]).await;
    app.offers("evil__echo").await;
    let seen = app.get("/mcp-servers").await.expect(200);
    let evil = &seen["items"][0];
    assert_eq!((&evil["name"], &evil["origin"], &evil["health"]), (&json!("evil"), &json!("config"), &json!("ready")));
    assert!(evil.get("settings").is_none(), "the operator's command is not shown");
    let tool = evil["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "echo").unwrap();
    assert_eq!((&tool["name"], &tool["class"]), (&json!("evil__echo"), &json!("read")));
    assert_eq!((&tool["standing"], tool["hash"].as_str().unwrap().len()), (&json!("offered"), 32));

    let off = app.ask("PATCH", "/mcp-servers/evil").json(&json!({ "enabled": false })).send().await.expect(200);
    assert_eq!((&off["enabled"], &off["health"]), (&json!(false), &json!("disabled")));
    let has_echo = async |key: &str| {
        let tools = Ask::new(app.address, "GET", "/tools").key(key).send().await.expect(200);
        tools["items"].as_array().unwrap().iter().any(|tool| tool["name"] == "evil__echo")
    };
    assert!(!has_echo(ADMIN).await, "off at once");
    assert!(has_echo(OTHER).await, "and for nobody else");
    app.ask("PATCH", "/mcp-servers/evil").json(&json!({ "url": "http://x" })).send().await.problem("invalid");
    app.ask("DELETE", "/mcp-servers/evil").send().await.problem("forbidden");
    app.ask("PATCH", "/mcp-servers/evil").json(&json!({ "enabled": true })).send().await.expect(200);
    assert!(has_echo(ADMIN).await);
}

#[tokio::test]
async fn a_tool_is_approved_whatever_its_server_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path(), &[]).await;
    app.offers("evil____b_c").await;
    let seen = app.post("/mcp-servers/evil/tools/%C3%BC%2Fb%20c/approve", json!({})).await.expect(200);
    let tool = seen["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "ü/b c").unwrap();
    assert_eq!(tool["standing"], "offered");
    app.post("/mcp-servers/evil/tools/b%20c/approve", json!({})).await.problem("not_found");
}

#[tokio::test]
async fn a_tenant_adds_an_endpoint_that_nobody_else_sees() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::start().await;
    let app = app(folder.path(), &[endpoint.address.to_string()]).await;
    let new = json!({ "name": "shop", "url": endpoint.url(), "headers": { "x-shop": "env:CARGO_PKG_NAME" } });
    let added = app.post("/mcp-servers", new.clone()).await.expect(201);
    assert_eq!(
        (&added["origin"], &added["settings"]["headers"]["x-shop"]),
        (&json!("tenant"), &json!("env:CARGO_PKG_NAME"))
    );
    app.offers("shop__get_price").await;
    assert_eq!(endpoint.header("x-shop"), Some("pes".to_owned()), "the reference was followed");
    let shown = app.get("/mcp-servers/shop").await.expect(200);
    assert_eq!(shown["health"], "ready");
    let tool = &shown["tools"][0];
    assert_eq!(tool["class"], "external", "a stranger's claim to be harmless is not believed");
    assert_eq!(tool["idempotent"], false, "nor that it may be repeated");

    let other = |method: &str, path: &str| Ask::new(app.address, method, path).key(OTHER);
    other("GET", "/mcp-servers/shop").send().await.problem("not_found");
    other("DELETE", "/mcp-servers/shop").send().await.problem("not_found");
    other("PATCH", "/mcp-servers/shop").json(&json!({ "enabled": false })).send().await.problem("not_found");
    other("POST", "/mcp-servers/shop/tools/get_price/approve").send().await.problem("not_found");
    let tools = other("GET", "/tools").send().await.expect(200);
    assert!(!tools.to_string().contains("shop__"));

    app.post("/mcp-servers", new).await.problem("server_exists");
    let off = app.ask("PATCH", "/mcp-servers/shop").json(&json!({ "enabled": false })).send().await.expect(200);
    assert_eq!((&off["health"], &off["tools"]), (&json!("disabled"), &json!([])));
    app.ask("DELETE", "/mcp-servers/shop").send().await.expect(204);
    app.get("/mcp-servers/shop").await.problem("not_found");
}

#[tokio::test]
async fn what_a_tenant_may_not_add_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path(), &[]).await;
    let refused = async |body: Value| app.post("/mcp-servers", body).await.problem("invalid");
    refused(json!({ "name": "a", "url": "http://127.0.0.1:1/mcp" })).await;
    refused(json!({ "name": "a", "url": "http://169.254.169.254/latest" })).await;
    refused(json!({ "name": "a", "url": "file:///etc/passwd" })).await;
    refused(json!({ "name": "a__b", "url": "https://shop.example/mcp" })).await;
    refused(json!({ "name": "a", "command": "sh", "url": "https://shop.example/mcp" })).await;
    for header in ["env:OPENAI_API_KEY", "file:/etc/passwd", "plain secret"] {
        refused(json!({ "name": "a", "url": "https://shop.example/mcp", "headers": { "x": header } })).await;
    }
    app.post("/mcp-servers", json!({ "name": "evil", "url": "https://shop.example/mcp" }))
        .await
        .problem("server_exists");
    Ask::new(app.address, "GET", "/mcp-servers").key(READER).send().await.problem("forbidden");
}
