//! `/agents`: the agents that a tenant registered.

use std::net::SocketAddr;

use pes::config::ConfiguredKey;
use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::results;
use crate::support::app::App;
use crate::support::unused_address::unused_address;
use crate::support::wire::{Wire, answer};

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

/// Operators may write a password or a signature into the URL of a card.
#[tokio::test]
async fn of_the_operators_agents_only_the_origin_is_shown() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let card = format!("http://me:hush-1@{}/.well-known/agent-card.json?signature=hush-2", peer.address);
    let app = super::knowing(card, 20).await;
    peer.until(|told| told.authorization.is_some()).await;
    assert_eq!(peer.told().authorization.as_deref(), Some("Basic bWU6aHVzaC0x"), "the whole URL is used");
    let origin = json!(format!("http://{}", peer.address));
    assert_eq!(app.get("/agents/helper").await.expect(200)["card"], origin);
    assert_eq!(app.get("/agents").await.expect(200)["items"][0]["card"], origin);
}

#[tokio::test]
async fn an_agent_is_replaced_and_changed_by_whoever_read_it_last() {
    let (peer, next) = (Peer::start(Dialect::JsonRpc1).await, Peer::start(Dialect::JsonRpc1).await);
    peer.says("COMPLETED");
    next.says("COMPLETED");
    let app = app("127.0.0.1", 20).await;
    let spec = json!({ "id": "helper", "card": peer.card(), "token": "the first", "timeoutMs": 9_000 });
    app.post("/agents", spec).await.expect(201);
    let tag = async || app.get("/agents/helper").await.header("etag").map(str::to_owned).unwrap();
    let change = |method: &str, tag: &str, body: Value| {
        app.ask(method, "/agents/helper").header("if-match", tag).json(&body).send()
    };
    let first = tag().await;
    let other = json!({ "id": "helper", "card": next.card(), "token": "the second", "dedupes": true });
    let replaced = change("PUT", &first, other).await;
    let (second, replaced) = (replaced.header("etag").unwrap().to_owned(), replaced.expect(200));
    assert_eq!((&replaced["card"], &replaced["dedupes"]), (&json!(next.card()), &json!(true)));
    assert_eq!((&replaced["timeoutMs"], &replaced["token"]), (&Value::Null, &Value::Null), "it is replaced as a whole");
    assert_eq!(second, tag().await);
    app.finish("t1", "delegate").await;
    assert_eq!(results(&app, "t1").await[0]["output"]["text"], "done by helper");
    assert_eq!(next.told().authorization.as_deref(), Some("Bearer the second"));
    assert_eq!(peer.told().begun.len(), 0, "nothing speaks to the old address");

    change("PUT", &first, json!({ "id": "helper", "card": peer.card() })).await.problem("precondition_failed");
    change("PATCH", &first, json!({ "dedupes": false })).await.problem("precondition_failed");
    let same = change("PUT", &second, json!({ "id": "helper", "card": next.card(), "timeoutMs": 7_000 })).await;
    let third = same.header("etag").unwrap().to_owned();
    app.finish("t1b", "delegate").await;
    assert_eq!(next.told().authorization.as_deref(), Some("Bearer the second"), "the token stayed");
    let patched = change("PATCH", &third, json!({ "token": "another", "timeoutMs": 8_000 })).await.expect(200);
    assert_eq!(
        (&patched["card"], &patched["timeoutMs"]),
        (&json!(next.card()), &json!(8_000)),
        "the rest is as it was"
    );
    app.finish("t2", "delegate").await;
    assert_eq!(next.told().authorization.as_deref(), Some("Bearer another"));
    change("PATCH", "*", json!({ "token": null, "dedupes": null })).await.expect(200);
    assert_eq!(app.get("/agents/helper").await.expect(200)["dedupes"], json!(false), "as when it is not said");
    app.finish("t3", "delegate").await;
    assert_eq!(next.told().authorization, None, "it is called without a token");

    let lines = app.get("/audit").await.expect(200)["items"].clone();
    let is_ours =
        |line: &&Value| (&line["detail"]["kind"], &line["detail"]["id"]) == (&json!("agent"), &json!("helper"));
    assert_eq!(lines.as_array().unwrap().iter().filter(is_ours).count(), 5, "{lines:#}");
}

/// Whoever may change an agent could otherwise read its token at a host of their own.
#[tokio::test]
async fn a_token_goes_to_no_host_that_it_was_not_given_for() {
    let (peer, evil) = (Peer::start(Dialect::JsonRpc1).await, Peer::start(Dialect::JsonRpc1).await);
    evil.says("COMPLETED");
    let app = app("127.0.0.1", 20).await;
    let spec = json!({ "id": "helper", "card": peer.card(), "token": "theirs" });
    app.post("/agents", spec).await.expect(201);
    let change =
        |method: &str, body: Value| app.ask(method, "/agents/helper").header("if-match", "*").json(&body).send();
    for (method, body) in [
        ("PATCH", json!({ "card": evil.card() })),
        ("PUT", json!({ "id": "helper", "card": evil.card() })),
        ("PUT", json!({ "id": "helper", "card": evil.card(), "token": null })),
    ] {
        let problem = change(method, body).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/token", "{problem:#}");
    }
    assert_eq!(app.get("/agents/helper").await.expect(200)["card"], peer.card());
    // Another path of the same host is as good as the one before.
    change("PATCH", json!({ "card": format!("{}?v=2", peer.card()) })).await.expect(200);
    change("PATCH", json!({ "card": evil.card(), "token": null })).await.expect(200);
    app.finish("t", "delegate").await;
    assert_eq!(evil.told().authorization, None, "it is called without the token");
}

/// Its card is kept for minutes. Whoever tries again only after the first failure does so in an hour.
#[tokio::test]
async fn an_agent_that_has_moved_is_found_by_its_new_card() {
    let (nobody, _held) = unused_address();
    is_found_by_its_new_card(nobody).await;
}

/// Another server answers at the agent's old address.
#[rstest]
#[case("404 Not Found")]
#[case("410 Gone")]
#[case("308 Permanent Redirect")]
#[tokio::test]
async fn so_is_one_whose_messages_http_refuses_where_it_was(#[case] status: &str) {
    let before = Wire::serve(vec![answer(status, "", "")]).await;
    is_found_by_its_new_card(before.address).await;
    assert_eq!(before.waiting(), 1);
}

async fn is_found_by_its_new_card(before: SocketAddr) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| (told.state, told.elsewhere) = ("COMPLETED", Some(before)));
    let app = app("127.0.0.1", 3_600_000).await;
    app.post("/agents", json!({ "id": "helper", "card": peer.card() })).await.expect(201);
    assert_eq!(app.get("/agents/helper").await.expect(200)["name"], "Helper", "its card is known");
    peer.becomes(|told| told.elsewhere = None);
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "done by helper");
}

#[tokio::test]
async fn what_an_agent_cannot_become_is_refused() {
    let app = App::with(|config| {
        config.egress.allow.push("127.0.0.1:1".to_owned());
        super::knows(config, "http://127.0.0.1:1/fixed".to_owned(), 20);
    })
    .await;
    app.post("/agents", json!({ "id": "mine", "card": "http://127.0.0.1:1/card" })).await.expect(201);
    let before = app.get("/agents/mine").await;
    let change = |method: &str, id: &str, body: Value| app.ask(method, &format!("/agents/{id}")).json(&body).send();
    let card = "http://127.0.0.1:1/card";
    for (method, body, pointer) in [
        ("PUT", json!({ "id": "yours", "card": card }), "/id"),
        ("PUT", json!({ "id": "mine" }), "/card"),
        ("PUT", json!({ "id": "mine", "card": "http://10.0.0.1/card" }), "/card"),
        ("PATCH", json!({ "id": "yours" }), "/id"),
        ("PATCH", json!({ "card": null }), "/card"),
        ("PATCH", json!({ "timeoutMs": 0 }), "/timeoutMs"),
    ] {
        let problem = change(method, "mine", body).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    for body in [json!({ "colour": "green" }), json!([])] {
        change("PATCH", "mine", body).await.problem("invalid");
    }
    for method in ["PUT", "PATCH"] {
        change(method, "nobody", json!({ "id": "nobody", "card": card })).await.problem("not_found");
        // The operator's agents can be neither changed nor removed.
        change(method, "helper", json!({ "id": "helper", "card": card })).await.problem("not_found");
    }
    assert_eq!(app.get("/agents/helper").await.header("etag"), None);
    let after = app.get("/agents/mine").await;
    assert_eq!((after.header("etag"), after.expect(200)), (before.header("etag"), before.expect(200)));
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
