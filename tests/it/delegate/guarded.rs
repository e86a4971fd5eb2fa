//! Calls to agents go only to allowed addresses, and no sooner than the agent asks.

use pes::domain::Millis;
use pes::domain::settings::PolicyAction;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::{app, delegated, knows, registered, results};
use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::{Moody, fresh_store};
use crate::support::tampered::replace_in_call;
use crate::support::wire::{Wire, answer};

/// Longer than any test.
const NEVER: i64 = 3_600_000;

#[tokio::test]
async fn a_card_leads_nowhere_where_its_owner_may_not_call() {
    let (peer, inside) = (Peer::start(Dialect::JsonRpc1).await, Wire::serve(vec![]).await);
    peer.becomes(|told| told.elsewhere = Some(inside.address));
    // The operator allows the card's own address, and so does the tenant; neither allows the address that the card
    // names.
    let operators = app(&peer, NEVER).await;
    let tenants = registered::app(&peer.address.to_string(), NEVER).await;
    tenants.post("/agents", json!({ "id": "helper", "card": peer.card() })).await.expect(201);
    for app in [operators, tenants] {
        app.finish("t", "delegate").await;
        let error = results(&app, "t").await[0]["error"].clone();
        assert_eq!(error["code"], "peer_refused");
        let named = format!("its card names http://{}/agent: ", inside.address);
        assert!(error["message"].as_str().unwrap().starts_with(&named), "{error:#}");
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_card_of_a_tenant_is_not_read_where_the_tenant_may_not_call() {
    let (peer, inside) = (Peer::start(Dialect::JsonRpc1).await, Wire::serve(vec![]).await);
    peer.becomes(|told| told.moved = Some(inside.address));
    let app = registered::app(&peer.address.to_string(), NEVER).await;
    app.post("/agents", json!({ "id": "helper", "card": peer.card() })).await.expect(201);
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "peer_refused");
    assert!(peer.told().refused > 0, "it was asked, and sent us elsewhere");
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_message_does_not_follow_who_sends_it_elsewhere() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let mut inside = Wire::serve(vec![answer("404 Not Found", "", "")]).await;
    let app = registered::app("127.0.0.1", 10).await;
    app.post("/agents", json!({ "id": "helper", "card": peer.card() })).await.expect(201);
    assert_eq!(app.get("/agents/helper").await.expect(200)["name"], "Helper", "its card is known");
    peer.becomes(|told| told.moved = Some(inside.address));
    app.finish("t", "delegate").await;
    let error = results(&app, "t").await[0]["error"].clone();
    let why = format!("The answer is HTTP 307. It leads to http://{}/agent.", inside.address);
    assert_eq!((&error["code"], &error["message"]), (&json!("peer_refused"), &json!(why)));
    assert!(peer.told().refused > 0 && peer.told().sent.is_empty());
    let mut asked = vec![soon(inside.request()).await.line];
    while inside.waiting() > 0 {
        asked.push(inside.request().await.line);
    }
    asked.dedup();
    assert_eq!(asked, ["GET /.well-known/agent-card.json HTTP/1.1"], "only its card is read again");
}

#[tokio::test]
async fn an_agent_that_takes_a_message_once_is_sent_it_until_it_answers() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.silent = 3);
    peer.says("COMPLETED");
    let app = App::of(Moody::fresh().await, |config| {
        knows(config, peer.card(), 10);
        config.delegation.call_ms = 300;
        config.agents[0].dedupes = true;
    })
    .await;
    tokio::time::pause();
    app.finish("t", "delegate").await;
    tokio::time::resume();
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "done by helper");
    let told = peer.told();
    assert_eq!((told.sent.len(), told.begun.len()), (4, 1), "the same message, whatever came of it");
}

#[tokio::test]
async fn a_busy_agent_is_asked_no_sooner_than_it_wants() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 20).await;
    let (_, task) = delegated(&app, "t").await;
    peer.becomes(|told| told.busy = Some(3_600));
    let before = jiff::Timestamp::now().as_millisecond();
    let asked: Millis = soon(async {
        loop {
            let shown = app.get(&format!("/tasks/{task}")).await.expect(200);
            match shown["nextAskAt"].as_i64() {
                Some(at) if at > before + NEVER / 2 => return at,
                Some(_) | None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert!(asked >= before + 3_600_000, "{asked} {before}");
}

#[tokio::test]
async fn a_task_that_is_approved_is_not_sent_if_a_rule_denies_it_by_then() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.says("COMPLETED");
    let app = App::of(Moody::fresh().await, |config| {
        knows(config, peer.card(), NEVER);
        config.agent.tool_policy.insert("delegate_to_agent".to_owned(), PolicyAction::Ask);
    })
    .await;
    let approve = async |thread: &str, rules: Value| {
        let suspension = app.suspend(thread, "delegate").await;
        let put = app.ask("PUT", "/policy").header("if-match", "*").json(&rules);
        put.send().await.expect(200);
        let answer = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
        let resumed = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30").json(&answer);
        resumed.send().await.expect(200);
        results(&app, thread).await[0].clone()
    };
    app.ask("PUT", "/policy").json(&json!({ "rules": [] })).send().await.expect(200);
    assert_eq!(approve("t1", json!({ "rules": [] })).await["output"]["text"], "done by helper");
    let rule = json!({ "id": "stop", "tool": "delegate_to_agent", "action": "deny" });
    let error = approve("t2", json!({ "rules": [rule] })).await["error"].clone();
    assert_eq!(error["code"], "denied", "{error:#}");
    assert_eq!(error["message"], "Policy denies `delegate_to_agent` (stop). Nothing was sent.");
    let ended = app.observed("t2", "TOOL_EXECUTION").await[0].clone();
    let ruling = &ended["metadata"]["policy"];
    assert_eq!((&ruling["rule"], &ruling["action"]), (&json!("stop"), &json!("deny")), "{ended:#}");
    let audit = app.get("/threads/t2/audit").await.expect(200);
    let denied = |line: &Value| (line["action"] == "deny").then(|| line["detail"]["rule"].clone());
    let denials: Vec<Value> = audit["items"].as_array().unwrap().iter().filter_map(denied).collect();
    assert_eq!(denials, ["stop"], "{audit:#}");
    let task = app.get("/threads/t2/tasks").await.expect(200)["items"][0].clone();
    assert_eq!((&task["status"], &task["reason"]), (&json!("failed"), &error["message"]), "{task:#}");
    assert_eq!(peer.told().sent.len(), 1, "the first one");
}

/// Somebody with access to the database changes what was approved: the word is the same as for a tool that runs here.
#[tokio::test]
async fn a_task_that_changed_after_it_was_approved_is_not_sent() {
    let (peer, store) = (Peer::start(Dialect::JsonRpc1).await, fresh_store().await);
    let app = App::of(store.clone(), |config| {
        knows(config, peer.card(), NEVER);
        config.agent.tool_policy.insert("delegate_to_agent".to_owned(), PolicyAction::Ask);
    })
    .await;
    let suspension = app.suspend("t", "delegate").await;
    replace_in_call(&store, "t", "Look into it.", "Look elsewhere.").await;
    let answer = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
    let resumed = app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer);
    resumed.send().await.expect(200);
    let error = results(&app, "t").await[0]["error"].clone();
    assert_eq!(error["code"], "approval_mismatch", "{error:#}");
    assert_eq!(error["message"], "The arguments are not those that were approved; nothing was sent.");
    assert!(peer.told().sent.is_empty());
}
