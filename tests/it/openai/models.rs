//! `/v1/models`.

use crate::support::app::App;

#[tokio::test]
async fn agents_are_models_alone_and_with_each_model_that_they_can_think_with() {
    let app = App::start().await;
    let listed = app.get("/v1/models").await.expect(200);
    assert_eq!(listed["object"], "list");
    let ids: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["pes", "pes@demo:demo-scripted", "react", "react@demo:demo-scripted"]);
    for id in ids {
        let model = app.get(&format!("/v1/models/{id}")).await.expect(200);
        assert_eq!((model["id"].as_str(), model["object"].as_str()), (Some(id), Some("model")));
        assert!(model["created"].is_i64() && model["owned_by"] == "pes", "{model}");
        // Front ends rewrite the parameters of models that they take for OpenAI's own.
        assert!(!id.starts_with("gpt") && !id.starts_with('o'), "{id}");
    }
    let unknown = app.get("/v1/models/some/other").await;
    let error = unknown.expect(404)["error"].clone();
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("model_not_found"), Some("model")));
    assert_eq!(unknown.header("x-should-retry"), Some("false"));
}
