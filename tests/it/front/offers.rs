//! What this server offers, and its health.

use serde_json::json;

use crate::support::app::App;

#[tokio::test]
async fn models_tools_and_agents_are_listed() {
    let app = App::start().await;
    let models = app.get("/models").await.expect(200);
    assert_eq!(models["items"][0]["provider"], "demo");
    assert_eq!(models["items"][0]["isDefault"], true);
    assert!(models["items"][0]["prompts"].is_array());
    let tools = app.get("/tools").await.expect(200);
    let names: Vec<_> = tools["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["ask_user", "calculator", "current_time", "set_agent_state"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(tools["items"][0]["inputSchema"].is_object());
    assert_eq!(app.get("/agents").await.expect(200), json!({ "items": [] }));
}

#[tokio::test]
async fn a_server_tells_how_it_is() {
    let app = App::start().await;
    assert_eq!(app.get("/healthz").await.expect(200)["status"], "ok");
    assert_eq!(app.get("/readyz").await.expect(200)["status"], "ready");
    assert_eq!(app.get("/version").await.expect(200)["name"], "pes");
    let index = app.get("/").await.expect(200);
    assert_eq!(index["docs"], format!("http://{}/docs", app.address));
    let said = app.get("/docs").await;
    assert!(said.header("content-type").unwrap().starts_with("text/html"));
    let page = said.text();
    assert!(!page.contains("http://") && !page.contains("https://"), "the page needs no network");
}

#[tokio::test]
async fn numbers_are_told() {
    let app = App::start().await;
    app.get("/threads/none").await.problem("not_found");
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let text = app.get("/metrics").await.text();
    assert!(text.contains("pes_active_threads 1"), "{text}");
    assert_eq!(text.matches("\npes_active_threads ").count(), 1, "a sample stands once: {text}");
    assert!(text.contains(r#"pes_http_requests_total{method="GET",route="/threads/{thread}",status="404"}"#), "{text}");
}
