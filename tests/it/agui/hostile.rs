//! Malformed requests are refused with the place of the mistake, and nobody reaches another tenant's threads or
//! questions.

use serde_json::{Value, json};

use super::{ask, input, told, user, with};
use crate::support::app::App;
use crate::support::store::Moody;

#[tokio::test]
async fn what_does_not_fit_is_refused_at_its_place() {
    let app = App::start().await;
    let said = |message: Value| input("t", "r", &[message]);
    let hello = || input("t", "r", &[user("hello")]);
    let forced = json!({ "type": "function", "function": { "name": "copilotkitSuggest" } });
    for (sent, pointer) in [
        (json!({ "runId": "r", "messages": [] }), "/threadId"),
        (json!({ "threadId": "t", "messages": [] }), "/runId"),
        (json!({ "threadId": "t", "runId": "r" }), "/messages"),
        (with(hello(), "threadId", json!("..")), "/threadId"),
        (with(hello(), "runId", json!("")), "/runId"),
        (with(hello(), "runId", json!("a\nb")), "/runId"),
        (input("t", "r", &[]), "/messages"),
        (said(json!({ "role": "user" })), "/messages/0/content"),
        (said(json!({ "role": "user", "content": " " })), "/messages/0/content"),
        (said(json!({ "role": "user", "content": [{ "type": "image" }] })), "/messages/0/content"),
        (said(json!({ "role": "robot", "content": "x" })), "/messages/0/role"),
        (said(json!({ "role": "assistant", "content": "I say so." })), "/messages"),
        (said(json!({ "role": "tool", "content": "x" })), "/messages/0/toolCallId"),
        (with(hello(), "tools", json!([{ "description": "x" }])), "/tools/0/name"),
        (with(hello(), "resume", json!([{ "interruptId": "s", "status": "maybe" }])), "/resume/0/status"),
        (input("t", "r", &[user("hello"), json!({ "id": "a", "role": "assistant", "content": "Hi." })]), "/messages"),
        (with(hello(), "forwardedProps", json!({ "pes": { "speed": 9 } })), "/forwardedProps/pes/speed"),
        (with(hello(), "forwardedProps", json!({ "toolChoice": "required" })), "/forwardedProps/toolChoice"),
        (with(hello(), "forwardedProps", json!({ "toolChoice": forced })), "/forwardedProps/toolChoice"),
    ] {
        let problem = ask(&app, &sent).send().await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{sent} {problem:#}");
    }
    app.ask("POST", "/agui").typed("text/plain", "{}").send().await.problem("unsupported_media_type");
    app.get("/agui").await.problem("method_not_allowed");
    app.get("/threads/t").await.problem("not_found");
    let free = json!({ "toolChoice": "auto", "theme": { "dark": true } });
    assert_eq!(told(ask(&app, &with(hello(), "forwardedProps", free))).await.last().unwrap()["type"], "RUN_FINISHED");
    let capabilities = app.get("/agui/capabilities").await.expect(200);
    assert_eq!(capabilities["transport"]["streaming"], true);
}

#[tokio::test]
async fn what_belongs_to_others_is_neither_shown_nor_answered() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let asked = told(ask(&app, &input("t", "r", &[user("send")]))).await;
    let interrupt = asked.last().unwrap()["outcome"]["interrupts"][0]["id"].clone();
    let app = app.key("key-b-0123456789abcdef0123456789");
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": { "approved": true } }]);
    let refused = told(ask(&app, &with(input("t", "r", &[]), "resume", resume.clone()))).await;
    assert_eq!(refused[1]["code"], "already_resolved");
    let shown = told(app.ask("POST", "/agui/connect").json(&input("t", "r", &[]))).await;
    assert_eq!(shown[1]["messages"], json!([]));
    let app = app.key("reader-0123456789abcdef0123456789");
    ask(&app, &with(input("t", "r", &[]), "resume", resume)).send().await.problem("forbidden");
    let app = app.key("key-a-0123456789abcdef0123456789");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn who_may_not_approve_decides_nothing() {
    let key = "writer-0123456789abcdef0123456789";
    let app = App::with(|config| config.auth.keys = vec![format!("default/writer:read+run:{key}").parse().unwrap()]);
    let app = app.await.key(key);
    let tools = json!([{ "name": "get_location", "description": "Where.", "parameters": { "type": "object" } }]);
    let sent = with(input("t", "r1", &[user("locate")]), "tools", tools);
    let asked = told(ask(&app, &sent)).await;
    let interrupts = asked.last().unwrap()["outcome"]["interrupts"].as_array().unwrap();
    let resume = |interrupt: &Value| {
        let is_approval = interrupt["metadata"]["pes"]["kind"] == "approval";
        let payload = if is_approval { json!({ "approved": true }) } else { json!({ "value": "Rome" }) };
        json!({ "interruptId": interrupt["id"], "status": "resolved", "payload": payload })
    };
    let resumes: Vec<Value> = interrupts.iter().map(resume).collect();
    ask(&app, &with(input("t", "r2", &[]), "resume", json!(resumes))).send().await.problem("forbidden");
    let open = app.get("/suspensions").await.expect(200);
    assert_eq!(open["items"].as_array().unwrap().len(), 3, "nor was what it may say");
}

#[tokio::test]
async fn few_of_the_results_that_a_page_invents_are_looked_for() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let result = |at: usize| {
        let call = format!("call_{at}");
        json!({ "id": call, "role": "tool", "toolCallId": call, "content": "1" })
    };
    let results: Vec<Value> = (0..1_000).map(result).collect();
    store.calls("idempotency");
    let problem = ask(&app, &input("t", "r", &results)).send().await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/messages");
    assert_eq!(store.calls("idempotency"), 64);
}
