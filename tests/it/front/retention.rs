//! `/threads/{thread}/retention`, and what remains of a deleted thread.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::occurrences;

#[tokio::test]
async fn an_administrator_says_how_long_a_thread_is_kept_and_it_is_audited() {
    let app = App::with_keys().await;
    let ask = |method: &str, path: &str| app.ask(method, path).key("key-a-0123456789abcdef0123456789");
    ask("POST", "/threads").json(&json!({ "threadId": "t" })).send().await.expect(201);
    let path = "/threads/t/retention";
    let standard = json!({ "effective": { "logDays": 90, "threadDays": 400 } });
    assert_eq!(ask("GET", path).send().await.expect(200), standard);
    let put = async |body: Value| ask("PUT", path).json(&body).send().await;
    let said = put(json!({ "logDays": 7, "threadDays": "forever" })).await.expect(200);
    let terms = json!({ "logDays": 7, "threadDays": "forever" });
    assert_eq!(said, json!({ "logDays": 7, "threadDays": "forever", "effective": terms }));
    put(json!({ "logDays": 0 })).await.problem("invalid");
    put(json!({ "logDays": "always" })).await.problem("invalid");
    put(json!({ "hold": { "reason": "" } })).await.problem("invalid");
    let reader = app.ask("PUT", path).key("reader-0123456789abcdef0123456789").json(&json!({})).send().await;
    assert_eq!(reader.problem("forbidden")["scope"], "admin");

    let held = put(json!({ "hold": { "reason": "case 4711" } })).await.expect(200);
    assert_eq!((&held["hold"]["reason"], &held["hold"]["by"]), (&json!("case 4711"), &json!("admin-a")), "{held}");
    let refused = ask("DELETE", "/threads/t").send().await.problem("on_hold");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("case 4711") && detail.contains("PUT /threads/{id}/retention without `hold`"), "{detail}");
    ask("GET", "/threads/t").send().await.expect(200);
    assert_eq!(put(json!({})).await.expect(200), standard);
    ask("DELETE", "/threads/t").send().await.expect(204);
    let lines = ask("GET", "/threads/t/audit").send().await.expect(200);
    let lines = lines["items"].as_array().unwrap();
    let actions: Vec<_> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["retention", "retention", "retention", "delete thread"]);
}

#[tokio::test]
async fn no_byte_of_a_deleted_thread_is_left_soon_after_and_its_audit_is() {
    let folder = tempfile::tempdir().unwrap();
    let app = App::with(|config| config.store.data_dir = folder.path().join("data")).await;
    let (data, marker) = (folder.path().join("data"), Uuid::new_v4().to_string());
    let ask = json!({ "query": format!("hello {marker}"), "userId": marker });
    let asked = app.ask("POST", "/threads/t/process").header("prefer", "wait=30").header("idempotency-key", &marker);
    asked.json(&ask).send().await.expect(200);
    app.ask("PUT", "/threads/t/agent-state").json(&json!({ "data": { "secret": marker.repeat(500) } })).send().await;
    app.ask("PATCH", "/threads/t")
        .json(&json!({ "title": marker, "metadata": { "m": marker } }))
        .send()
        .await
        .expect(200);
    app.finish("other", "hello").await;
    assert!(occurrences(&data, &marker) > 10, "the same search finds it before");
    app.ask("DELETE", "/threads/t").send().await.expect(204);
    let until_gone = async {
        while occurrences(&data, &marker) > 0 {
            // It runs beside the requests.
            app.get("/threads/other").await.expect(200);
        }
    };
    soon(until_gone).await;
    let lines = app.get("/threads/t/audit").await.expect(200);
    assert!(lines["items"].as_array().unwrap().iter().any(|line| line["action"] == "delete thread"), "{lines:#}");
    app.finish("other", "hello").await;
}
