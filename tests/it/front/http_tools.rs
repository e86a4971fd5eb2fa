//! `/http-tools`: a tenant's own services.

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Wire, answer};

fn find_order(url: &str) -> Value {
    json!({ "name": "find_order", "description": "Finds an order.", "url": url, "inputSchema": { "type": "object" } })
}

async fn app(allow: &str) -> App {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    App::with(|config| {
        config.egress.allow.push(allow.to_owned());
        config.auth.keys =
            vec![key("one:admin:key-a-0123456789abcdef0123456789"), key("two:admin:key-b-0123456789abcdef0123456789")];
    })
    .await
    .key("key-a-0123456789abcdef0123456789")
}

#[tokio::test]
async fn a_tool_is_offered_to_its_tenant_and_called_and_goes_away() {
    let mut wire = Wire::serve((0..2).map(|_| answer("200 OK", "", r#"{"state":"sent"}"#)).collect()).await;
    let app = app(&wire.address.to_string()).await;
    let made = app.post("/http-tools", find_order(&format!("http://{}/", wire.address))).await.expect(201);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made:#}");
    assert_eq!((&made["class"], &made["timeoutMs"]), (&json!("external"), &json!(30_000)));
    app.finish("t", "order").await;
    let request = wire.request().await;
    assert_eq!(request.body["arguments"], json!({ "id": "7" }));
    assert!(request.header("webhook-signature").is_some());
    let mut other = find_order(&format!("http://{}/", wire.address));
    other["description"] = json!("Finds any order.");
    let put = app.ask("PUT", "/http-tools/find_order").json(&other).send().await.expect(200);
    assert_eq!((&put["description"], &put["secret"]), (&json!("Finds any order."), &Value::Null));
    app.finish("u", "order").await;
    assert!(wire.request().await.header("webhook-signature").is_some(), "the secret stayed");
    let shown = app.get("/http-tools").await.expect(200);
    assert_eq!((&shown["items"][0]["name"], &shown["items"][0]["secret"]), (&json!("find_order"), &Value::Null));
    assert_eq!(app.ask("DELETE", "/http-tools/find_order").send().await.status, 204);
    let tools = app.get("/tools").await.expect(200).to_string();
    assert!(!tools.contains("find_order"));
    app.get("/http-tools/find_order").await.problem("not_found");
}

#[tokio::test]
async fn another_tenant_neither_sees_nor_has_it() {
    let app = app("127.0.0.1:1").await;
    app.post("/http-tools", find_order("https://example.com/")).await.expect(201);
    assert!(app.get("/tools").await.expect(200).to_string().contains("find_order"));
    let app = app.key("key-b-0123456789abcdef0123456789");
    assert!(!app.get("/tools").await.expect(200).to_string().contains("find_order"));
    app.get("/http-tools/find_order").await.problem("not_found");
    assert_eq!(app.get("/http-tools").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn what_cannot_be_a_tool_is_refused() {
    let app = app("127.0.0.1:1").await;
    let with = |member: &str, value: Value| {
        let mut spec = find_order("https://example.com/");
        spec[member] = value;
        spec
    };
    let table = [
        (with("name", json!("calculator")), "/name"),
        (with("name", json!("with space")), "/name"),
        (with("url", json!("http://10.0.0.1/")), "/url"),
        (with("inputSchema", json!({ "type": "nonsense" })), "/inputSchema/type"),
        (with("outputSchema", json!({ "type": "nonsense" })), "/outputSchema/type"),
        (with("timeoutMs", json!(0)), "/timeoutMs"),
        (with("secret", json!("")), "/secret"),
    ];
    for (spec, pointer) in table {
        let problem = app.post("/http-tools", spec).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
}
