//! `/policy`, `/policy/dry-run`, `/audit`

use serde_json::{Value, json};

use crate::support::app::App;

const ADMIN: &str = "key-a-0123456789abcdef0123456789";
const STRANGER: &str = "key-b-0123456789abcdef0123456789";
const READER: &str = "reader-0123456789abcdef0123456789";

fn rules(action: &str) -> Value {
    json!({ "rules": [{ "id": "sums", "tool": "calc*", "action": action, "reason": "Sums are sacred.",
        "when": [{ "pointer": "/expression", "op": "contains", "value": "+" }] }] })
}

async fn put(app: &App, if_match: Option<&str>, body: &Value) -> crate::support::http::Said {
    let ask = app.ask("PUT", "/policy").json(body);
    match if_match {
        Some(tag) => ask.header("if-match", tag).send().await,
        None => ask.send().await,
    }
}

#[tokio::test]
async fn a_tenant_writes_its_rules_and_nobody_overwrites_what_they_did_not_read() {
    let app = App::with_keys().await.key(ADMIN);
    let none = app.get("/policy").await;
    assert_eq!((none.expect(200), none.header("etag")), (json!({ "rules": [] }), Some("\"0\"")));
    let first = put(&app, None, &rules("deny")).await;
    assert_eq!(first.expect(200), rules("deny"));
    let tag = first.header("etag").unwrap().to_owned();
    put(&app, None, &rules("ask")).await.problem("precondition_required");
    put(&app, Some("\"0\""), &rules("ask")).await.problem("precondition_failed");
    put(&app, Some(&tag), &rules("ask")).await.expect(200);
    put(&app, Some(&tag), &rules("auto")).await.problem("precondition_failed");
    assert_eq!(app.get("/policy").await.expect(200), rules("ask"));
    let lines = app.get("/audit").await.expect(200);
    assert_eq!(lines["items"].as_array().unwrap().len(), 2, "{lines:#}");
    assert_eq!(lines["items"][0]["actor"], "admin-a");
    assert_eq!(lines["items"][0]["detail"], json!({ "kind": "policy", "id": "rules", "body": rules("ask") }));

    let wrong = json!({ "rules": [{ "action": "ask", "when": [{ "pointer": "x", "op": "eq" }] }] });
    let problem = put(&app, Some("*"), &wrong).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/rules/0/when/0/pointer", "{problem:#}");
    let app = app.key(STRANGER);
    assert_eq!(app.get("/policy").await.expect(200), json!({ "rules": [] }));
    assert_eq!(app.get("/audit").await.expect(200)["items"], json!([]));
    let app = app.key(READER);
    for (method, path) in [("GET", "/policy"), ("PUT", "/policy"), ("POST", "/policy/dry-run"), ("GET", "/audit")] {
        let body = json!({ "rules": [] });
        app.ask(method, path).json(&body).send().await.problem("forbidden");
    }
}

#[tokio::test]
async fn what_else_decides_is_shown_beside_the_own_rules() {
    let app = App::with(|config| {
        config.policy.rules =
            vec![serde_json::from_value(json!({ "id": "no-http", "tool": "http_*", "action": "deny" })).unwrap()];
        config.agent.tool_policy.insert("calc*".to_owned(), pes::domain::settings::PolicyAction::Ask);
    })
    .await;
    put(&app, None, &rules("ask")).await.expect(200);
    let said = app.get("/policy?effective=true").await;
    let shown = said.expect(200);
    assert_eq!(shown["rules"], rules("ask")["rules"]);
    assert_eq!(shown["server"][0]["id"], "no-http");
    assert_eq!((&shown["server"][1]["tool"], &shown["server"][1]["action"]), (&json!("calc*"), &json!("ask")));
    let by_class = |class: &str, action: &str| json!({ "class": class, "action": action });
    let defaults = [("read", "auto"), ("write", "auto"), ("external", "auto"), ("irreversible", "ask")];
    assert_eq!(shown["defaults"], json!(defaults.map(|(class, action)| by_class(class, action))));
    assert_eq!(said.header("etag"), app.get("/policy").await.header("etag"));
    assert_eq!(app.get("/policy?effective=false").await.expect(200), rules("ask"));
}

#[tokio::test]
async fn every_decision_names_its_rule() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let told = async |thread: &str| app.observed(thread, "TOOL_EXECUTION").await[0].clone();
    let ran = told("t1").await;
    assert_eq!(ran["metadata"]["policy"]["rule"], "default for read tools = auto", "{ran:#}");
    assert_eq!(app.get("/threads/t1/audit").await.expect(200)["items"], json!([]), "nobody decided anything");

    put(&app, None, &rules("deny")).await.expect(200);
    app.finish("t2", "count").await;
    let denied = told("t2").await;
    let tag = app.get("/policy").await.header("etag").unwrap().trim_matches('"').to_owned();
    let version: i64 = tag.parse().unwrap();
    let ruling = json!({ "action": "deny", "rule": "sums", "scope": "tenant", "version": version,
        "reason": "Sums are sacred.", "when": [{ "pointer": "/expression", "op": "contains", "value": "+" }] });
    assert_eq!(denied["metadata"]["policy"], ruling);
    assert_eq!(denied["content"]["error"]["message"], "Policy denies `calculator` (sums). Sums are sacred.");
    let call = denied["content"]["callId"].as_str().unwrap();
    assert_eq!(app.get(&format!("/threads/t2/tool-calls/{call}")).await.expect(200)["policy"], ruling);
    let audit = app.get("/threads/t2/audit").await.expect(200);
    assert_eq!((&audit["items"][0]["actor"], &audit["items"][0]["action"]), (&json!("policy"), &json!("deny")));
    assert_eq!(audit["items"][0]["detail"]["rule"], "sums", "{audit:#}");

    put(&app, Some("*"), &rules("ask")).await.expect(200);
    let suspension = app.suspend("t3", "count").await;
    assert_eq!((&suspension["policy"]["rule"], &suspension["policy"]["scope"]), (&json!("sums"), &json!("tenant")));
    assert!(suspension["policy"]["version"].as_i64().unwrap() > version, "the rules were written again");
}

/// A rule that is to stop a tool also stops the calls of it that somebody has been asked about.
#[tokio::test]
async fn what_is_approved_does_not_run_if_a_rule_denies_it_by_then() {
    let app = App::start().await;
    put(&app, None, &json!({ "rules": [] })).await.expect(200);
    let approve = async |thread: &str, change: Option<Value>| {
        let suspension = app.suspend(thread, "send").await;
        if let Some(rules) = change {
            put(&app, Some("*"), &json!({ "rules": [rules] })).await.expect(200);
        }
        let answer = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
        let resumed = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30").json(&answer);
        resumed.send().await.expect(200);
        app.observed(thread, "TOOL_EXECUTION").await[0].clone()
    };
    assert_eq!(approve("t1", None).await["content"]["status"], "success");
    let rule = json!({ "id": "stop", "tool": "demo_send_email", "action": "deny", "reason": "It was broken into.",
        "when": [{ "pointer": "/to", "op": "eq", "value": "a@example.com" }] });
    let ended = approve("t2", Some(rule.clone())).await;
    let denied = &ended["content"];
    assert_eq!((&denied["status"], &denied["error"]["code"]), (&json!("error"), &json!("denied")), "{denied:#}");
    let told = "Policy denies `demo_send_email` (stop). It was broken into. Nothing was done.";
    assert_eq!(denied["error"]["message"], told);
    let ruling = &ended["metadata"]["policy"];
    assert_eq!((&ruling["rule"], &ruling["action"]), (&json!("stop"), &json!("deny")), "{ended:#}");
    let call = denied["callId"].as_str().unwrap();
    assert_eq!(app.get(&format!("/threads/t2/tool-calls/{call}")).await.expect(200)["policy"], *ruling);
    let audit = app.get("/threads/t2/audit").await.expect(200);
    let decided = |line: &Value| (line["action"] == "deny").then(|| line["detail"]["rule"].clone());
    let denials: Vec<Value> = audit["items"].as_array().unwrap().iter().filter_map(decided).collect();
    assert_eq!(denials, ["stop"], "{audit:#}");
    let mut other = rule;
    (other["when"][0]["value"], other["id"]) = ("b@example.com".into(), "other".into());
    put(&app, Some("*"), &json!({ "rules": [] })).await.expect(200);
    assert_eq!(approve("t3", Some(other)).await["content"]["status"], "success", "it is about another call");
}

#[tokio::test]
async fn a_dry_run_tells_what_would_have_changed_and_changes_nothing() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    app.finish("t2", "calls").await;
    let since = app.get("/threads/t2").await.expect(200)["createdAt"].clone();
    let asked = json!({ "rules": [{ "id": "no", "tool": "calculator", "action": "deny",
        "when": [{ "pointer": "/expression", "op": "eq", "value": "100 + 2" }] }] });
    let report = app.post("/policy/dry-run", asked.clone()).await.expect(200);
    assert_eq!(report["counts"], json!({ "auto": { "auto": 2, "deny": 1 } }), "{report:#}");
    assert_eq!((&report["changed"], &report["complete"]), (&json!(1), &json!(true)));
    let changed = report["calls"].as_array().unwrap().iter().find(|call| call["new"]["action"] == "deny").unwrap();
    assert_eq!((&changed["threadId"], &changed["new"]["rule"]), (&json!("t2"), &json!("no")));
    assert_eq!(changed["old"]["rule"], "default for read tools = auto");

    let with = |name: &str, value: Value| {
        let mut asked = asked.clone();
        asked[name] = value;
        app.post("/policy/dry-run", asked)
    };
    let newer = with("since", since).await.expect(200);
    assert_eq!(newer["calls"].as_array().unwrap().len(), 2, "{newer:#}");
    let one = with("limit", json!(1)).await.expect(200);
    assert_eq!((one["calls"].as_array().unwrap().len(), &one["complete"]), (1, &json!(false)));
    with("limit", json!(0)).await.problem("invalid");
    assert_eq!(app.get("/policy").await.expect(200), json!({ "rules": [] }));
}

/// A caller with only `run` may make a thread's policy stricter, through any door; loosening it needs `approve`.
#[tokio::test]
async fn a_threads_policy_is_loosened_only_by_who_may_approve_and_names_its_writer() {
    const RUNNER: &str = "runner-0123456789abcdef0123456789";
    let app = App::with(|config| {
        let key = |whose: &str, key: &str| format!("one/{whose}:{key}").parse().unwrap();
        config.auth.keys = vec![key("approver:read+run+approve", ADMIN), key("runner:read+run", RUNNER)];
    })
    .await;
    let app = app.key(RUNNER);
    let create =
        |id: &str, entries: Value| app.post("/threads", json!({ "threadId": id, "config": { "toolPolicy": entries } }));
    let patch = |app: &App, entries: Value| {
        app.ask("PATCH", "/threads/t1").json(&json!({ "config": { "toolPolicy": entries } })).send()
    };
    let problem = create("t0", json!({ "*": "auto" })).await.problem("forbidden");
    assert_eq!(
        (&problem["scope"], &problem["errors"][0]["pointer"]),
        (&json!("approve"), &json!("/config/toolPolicy/*"))
    );
    app.get("/threads/t0").await.problem("not_found");

    let mine = create("t1", json!({ "calc*": "ask", "demo_*": "deny" })).await.expect(201);
    assert_eq!(mine["toolPolicyBy"], json!({ "calc*": "runner", "demo_*": "runner" }), "{mine:#}");
    patch(&app, json!({ "calculator": "auto" })).await.problem("forbidden");
    let app = app.key(ADMIN);
    patch(&app, json!({ "demo_send_email": "auto", "http_*": "deny" })).await.expect(200);
    let app = app.key(RUNNER);
    for loss in [json!({ "http_*": null }), json!({ "http_fetch": "ask" }), json!({ "http_*": "ask" })] {
        patch(&app, loss).await.problem("forbidden");
    }
    let now = patch(&app, json!({ "calc*": null, "current_time": "ask" })).await.expect(200);
    let by = json!({ "demo_*": "runner", "current_time": "runner",
        "demo_send_email": "approver", "http_*": "approver" });
    assert_eq!(now["toolPolicyBy"], by, "what was there keeps its writer: {now:#}");
    app.finish("t1", "send").await;
}
