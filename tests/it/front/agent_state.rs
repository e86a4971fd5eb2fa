//! `/threads/{thread}/agent-state`

use serde_json::json;

use crate::support::app::App;

#[tokio::test]
async fn the_application_keeps_its_own_state() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let said = app.get("/threads/t1/agent-state").await;
    let before = said.expect(200);
    let tag = said.header("etag").unwrap().to_owned();
    let put = |tag: &str, data: serde_json::Value| {
        app.ask("PUT", "/threads/t1/agent-state").header("if-match", tag).json(&json!({ "data": data })).send()
    };
    let after = put(&tag, json!({ "mood": "good" })).await.expect(200);
    assert_eq!(after["data"], json!({ "mood": "good" }));
    assert_ne!(after["version"], before["version"]);
    put(&tag, json!({})).await.problem("precondition_failed");
    assert_eq!(app.get("/threads/t1/agent-state").await.expect(200), after);
    let stale = app.ask("PUT", "/threads/t1/agent-state").json(&before).send().await;
    stale.problem("precondition_failed");
    let page = app.observed("t1", "STATE_UPDATE").await;
    assert_eq!(page[0]["content"]["stateVersion"], after["version"], "{page:#?}");
    app.ask("PUT", "/threads/t1/agent-state").json(&json!({ "state": 1 })).send().await.problem("invalid");
    app.get("/threads/none/agent-state").await.problem("not_found");
}
