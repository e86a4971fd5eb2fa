//! The decision in a receipt is the one whether the call may run, not the answer to another question about the call.

use std::path::Path;

use pes::config::{Config, ConfiguredKey};
use pes::domain::ids::ThreadPk;
use pes::domain::settings::PolicyAction;
use pes::store::{AuditRow, KeyAdded, KeyRow, Store};
use serde_json::{Value, json};

use super::receipts::{BOSS, receipt, verified};
use super::signed::KEY;
use crate::mcp::bed::evil;
use crate::support::app::App;
use crate::support::http::{Ask, soon};
use crate::support::store::fresh_store;

const CARL: &str = "carl-0123456789abcdef0123456789ab";

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "A", intent = "A", plan = "A", todoList = [
    { id = "{{query}}", description = "Call it", stepType = "tool" },
] }
[[reply]]
when = { phase = "execution", item = "elicit", iteration = 1 }
calls = [{ tool = "evil__elicit", arguments = {} }]
[[reply]]
when = { phase = "execution", item = "crash", iteration = 1 }
calls = [{ tool = "evil__crash", arguments = {} }]
[[reply]]
when = { phase = "execution" }
text = "Done."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

/// The keys of two people, of whom the boss sends the requests, and a key that signs.
fn keys(config: &mut Config) {
    let key = |name: &str, key: &str| format!("one/{name}:admin:{key}").parse::<ConfiguredKey>().unwrap();
    config.auth.keys = vec![key("boss", BOSS), key("carl", CARL)];
    config.auth.audit_key = Some(KEY.repeat(4).into());
}

/// The same, with tools of an MCP server: one asks a person while it runs and needs an approval before, one crashes.
async fn with_tools(folder: &Path) -> App {
    let app = App::scripted(SCRIPT, |config| {
        keys(config);
        config.agent.tool_policy.insert("evil__elicit".to_owned(), PolicyAction::Ask);
        config.mcp.servers.insert("evil".to_owned(), evil(folder));
    })
    .await
    .key(BOSS);
    app.offers("evil__elicit").await;
    app
}

/// Answers this question.
async fn answer(app: &App, question: &Value, mut answer: Value) -> Value {
    answer["suspensionId"] = question["suspensionId"].clone();
    let said = app.ask("POST", "/threads/t/resume").header("prefer", "wait=20").json(&answer).send().await;
    assert!(matches!(said.status, 200 | 202), "{}", said.text());
    said.json()
}

/// The receipt of the call that this question was about, and what the script says of it.
async fn receipt_of(app: &App, question: &Value) -> (Value, String) {
    let signed = receipt(app, "t", &question["callId"]).await.expect(200);
    let keys = app.get("/audit/keys").await.expect(200);
    let said = verified(&signed, &keys).unwrap_or_else(|error| panic!("{error}: {signed:#}"));
    (signed["receipt"].clone(), said)
}

/// Who decided what about which question.
fn decided(receipt: &Value) -> (&Value, &Value, &Value) {
    (&receipt["question"]["suspensionId"], &receipt["decision"]["decision"], &receipt["decision"]["by"])
}

#[tokio::test]
async fn an_answer_that_a_running_call_wanted_is_no_approval() {
    let folder = tempfile::tempdir().unwrap();
    let app = with_tools(folder.path()).await;
    let approval = app.suspend("t", "elicit").await;
    assert_eq!(approval["kind"], "approval", "{approval:#}");
    let colour = answer(&app, &approval, json!({ "approved": true })).await["suspensions"][0].clone();
    assert_eq!((&colour["kind"], &colour["callId"]), (&json!("input"), &approval["callId"]), "{colour:#}");
    let red = json!({ "suspensionId": colour["suspensionId"], "value": { "colour": "red" } });
    let ask = Ask::new(app.address, "POST", "/threads/t/resume").key(CARL);
    ask.header("prefer", "wait=20").json(&red).send().await.expect(200);
    let (receipt, said) = receipt_of(&app, &approval).await;
    assert_eq!(decided(&receipt), (&approval["suspensionId"], &json!("approved"), &json!("boss")), "{receipt:#}");
    assert_eq!(receipt["executed"]["digest"], approval["digest"]);
    assert!(said.contains("3 lines of the audit; approved by boss"), "{said}");
}

#[tokio::test]
async fn a_call_in_doubt_that_needed_no_approval_has_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let app = with_tools(folder.path()).await;
    let doubt = app.suspend("t", "crash").await;
    assert_eq!(doubt["kind"], "in_doubt", "{doubt:#}");
    answer(&app, &doubt, json!({ "action": "done", "value": "it worked" })).await;
    let (receipt, said) = receipt_of(&app, &doubt).await;
    assert_eq!(decided(&receipt), (&Value::Null, &Value::Null, &Value::Null), "{receipt:#}");
    assert!(said.contains("1 lines of the audit; None by None"), "{said}");
}

#[tokio::test]
async fn a_word_that_a_call_asks_for_is_no_decision() {
    let app = App::with(keys).await.key(BOSS);
    let word = app.suspend("t", "ask").await;
    answer(&app, &word, json!({ "value": "green" })).await;
    let (receipt, _) = receipt_of(&app, &word).await;
    assert_eq!(decided(&receipt), (&Value::Null, &Value::Null, &Value::Null), "{receipt:#}");
    assert_eq!(receipt["outcome"]["status"], "success");
}

#[tokio::test]
async fn the_result_of_a_clients_tool_is_no_decision() {
    let app = App::with(keys).await.key(BOSS);
    let tool = json!({ "name": "get_location", "description": "Where.", "inputSchema": { "type": "object" } });
    let ask = app.ask("POST", "/threads/t/process").header("prefer", "wait=20");
    let query = json!({ "query": "locate", "options": { "clientTools": [tool] } });
    let place = ask.json(&query).send().await.expect(202)["suspensions"][0].clone();
    assert_eq!(place["kind"], "client_tool", "{place:#}");
    answer(&app, &place, json!({ "value": "Rome" })).await;
    let (receipt, _) = receipt_of(&app, &place).await;
    assert_eq!(decided(&receipt), (&Value::Null, &Value::Null, &Value::Null), "{receipt:#}");
}

#[tokio::test]
async fn an_approval_that_expired_was_decided_by_the_timer() {
    let app = App::with(keys).await.key(BOSS);
    let query = json!({ "query": "send", "options": { "executionConfig": { "suspensionTimeoutMs": 1 } } });
    app.post("/threads/t/process", query).await.expect(202);
    let approval = app.asked("t").await;
    let ended = app.ask("GET", "/threads/t/events?types=RUN_FINISHED&tokens=false");
    let mut ended = ended.header("accept", "text/event-stream").events().await;
    while soon(ended.next()).await.expect("it goes on").event != "observation" {}
    let (receipt, said) = receipt_of(&app, &approval).await;
    assert_eq!(decided(&receipt), (&approval["suspensionId"], &json!("deny"), &json!("timer")), "{receipt:#}");
    assert!(said.contains("2 lines of the audit; deny by timer"), "{said}");
}

/// Keys in the settings have no ids. A stored key that was made later with the name of one did not decide.
#[tokio::test]
async fn a_decision_is_not_ascribed_to_a_key_that_was_made_later() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), keys).await.key(BOSS);
    let approval = app.suspend("t", "send").await;
    answer(&app, &approval, json!({ "approved": true })).await;
    let (before, _) = receipt_of(&app, &approval).await;
    let at = before["decision"]["at"].as_i64().unwrap();
    make_key(&*store, at + 1).await;
    let (after, _) = receipt_of(&app, &approval).await;
    assert_eq!((&after["decision"]["by"], &after["decision"]["keyId"]), (&json!("boss"), &Value::Null));
}

/// A stored key with the name of one in the settings.
async fn make_key(store: &dyn Store, created_at: i64) {
    let tenant = store.tenant("one", created_at).await.unwrap();
    let key = KeyRow {
        key_id: "key_later".to_owned(),
        tenant,
        tenant_name: "one".to_owned(),
        name: "boss".to_owned(),
        hash: "00".to_owned(),
        scopes: "read".to_owned(),
        created_at,
        revoked_at: None,
        expires_at: None,
        used_at: None,
        former_hash: None,
        former_until: None,
    };
    let audit = AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: created_at,
        actor: "local".to_owned(),
        action: "make key".to_owned(),
        detail: json!({}),
    };
    assert_eq!(store.add_key(key, usize::MAX, audit).await.unwrap(), KeyAdded::Stored);
}
