//! `POST /threads/{thread}/process`

use serde_json::json;

use crate::support::app::App;

#[tokio::test]
async fn a_query_is_accepted_and_its_answer_comes() {
    let app = App::start().await;
    let receipt = app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    assert_eq!(receipt["threadId"], "t1");
    assert_eq!(receipt["eventsUrl"], format!("http://{}/threads/t1/events", app.address));
    let run = app.get(&format!("/runs/{}?wait=20", receipt["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "completed", "{run:#}");
    assert_eq!(run["result"]["response"]["content"], "Two and two are four.");
}
