//! `/agents`: a tenant's own.

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::results;
use crate::support::app::App;

/// The tenants `one` and `two` may have agents there.
pub async fn app(allow: &str, poll_ms: i64) -> App {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    App::with(|config| {
        config.delegation.poll_ms = poll_ms;
        config.egress.allow.push(allow.to_owned());
        config.auth.sealing_key = Some("a key for secrets".to_owned().into());
        config.auth.keys =
            vec![key("one:admin:key-a-0123456789abcdef0123456789"), key("two:admin:key-b-0123456789abcdef0123456789")];
    })
    .await
    .key("key-a-0123456789abcdef0123456789")
}

#[tokio::test]
async fn an_agent_is_added_called_with_its_token_and_removed_and_belongs_to_its_tenant() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("COMPLETED");
    let app = app(&peer.address.to_string(), 20).await;
    let spec = json!({ "id": "helper", "card": peer.card(), "token": "their secret", "dedupes": true });
    let made = app.post("/agents", spec.clone()).await.expect(201);
    assert_eq!((&made["token"], &made["isFixed"]), (&Value::Null, &json!(false)));
    let known = app.get("/agents/helper").await.expect(200);
    assert_eq!((&known["name"], &known["skills"][0]["id"]), (&json!("Helper"), &json!("help")));
    let again = app.post("/agents", spec).await.problem("invalid");
    assert_eq!(again["errors"][0]["pointer"], "/id");
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "done by helper");
    assert_eq!(peer.told().authorization.as_deref(), Some("Bearer their secret"));
    let task = app.get("/threads/t/tasks").await.expect(200)["items"][0]["taskId"].as_str().unwrap().to_owned();
    let app = app.key("key-b-0123456789abcdef0123456789");
    assert_eq!(app.get("/agents").await.expect(200)["items"], json!([]));
    assert!(!app.get("/tools").await.expect(200).to_string().contains("delegate_to_agent"));
    app.get(&format!("/tasks/{task}")).await.problem("not_found");
    app.get("/agents/helper").await.problem("not_found");
    let app = app.key("key-a-0123456789abcdef0123456789");
    assert_eq!(app.ask("DELETE", "/agents/helper").send().await.status, 204);
    app.get("/agents/helper").await.problem("not_found");
}

#[tokio::test]
async fn what_agents_and_we_share_is_not_to_be_read_where_it_is_kept() {
    let (peer, folder) = (Peer::start(Dialect::JsonRpc1).await, tempfile::tempdir().unwrap());
    let (data, address) = (folder.path().to_owned(), peer.address.to_string());
    let app = App::with(|config| {
        config.egress.allow.push(address);
        config.store.data_dir = data;
    })
    .await;
    let spec = json!({ "id": "helper", "card": peer.card(), "token": "their secret" });
    app.post("/agents", spec).await.expect(201);
    super::delegated(&app, "t").await;
    let (_, _, token) = peer.push(0);
    assert_eq!(peer.told().authorization.as_deref(), Some("Bearer their secret"));
    app.stopped().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        seen += bytes.len();
        let has = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!has("their secret") && !has(&token));
    }
    assert!(seen > 0);
}

#[tokio::test]
async fn what_cannot_be_an_agent_is_refused() {
    let app = app("127.0.0.1:1", 20).await;
    let table = [
        (json!({ "id": "with space", "card": "https://example.com/" }), "/id"),
        (json!({ "id": "a", "card": "nonsense" }), "/card"),
        (json!({ "id": "a", "card": "http://10.0.0.1/card" }), "/card"),
        (json!({ "id": "a", "card": "https://example.com/", "timeoutMs": 0 }), "/timeoutMs"),
        (json!({ "id": "a", "card": "https://example.com/", "token": "a\nb" }), "/token"),
    ];
    for (spec, pointer) in table {
        let problem = app.post("/agents", spec).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
}
