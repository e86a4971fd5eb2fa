//! `PES_MODEL=a,b`: if a model cannot answer, the next one is called, and both are recorded.

use pes::config::Provider;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Step, Wire, answer, says};

/// Two providers, `a` before `b`.
async fn chain(a: Vec<Vec<Step>>, b: Vec<Vec<Step>>) -> (App, Wire, Wire) {
    let (a, b) = (Wire::serve(a).await, Wire::serve(b).await);
    let of = |wire: &Wire| Provider { base_url: Some(wire.url()), ..Provider::default() };
    let providers = [("a".to_owned(), of(&a)), ("b".to_owned(), of(&b))];
    let app = App::with(|config| {
        config.models.choice = vec!["a:first".parse().unwrap(), "b:second".parse().unwrap()];
        config.models.providers.extend(providers);
    })
    .await;
    (app, a, b)
}

async fn events(app: &App, types: &str) -> Vec<Value> {
    let page = app.get(&format!("/threads/t1/events?types={types}")).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_next_model_answers_and_both_are_recorded() {
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "answer": "from b", "todoList": []}).to_string();
    let refused = answer("403 Forbidden", "", r#"{"error":{"message":"not here"}}"#);
    let (app, mut a, mut b) = chain(vec![refused], vec![says(&plan)]).await;
    let said = app.finish("t1", "hi").await;
    assert_eq!((&said["metadata"]["status"], &said["response"]["content"]), (&json!("success"), &json!("from b")));
    assert_eq!(a.request().await.body["model"], "first");
    assert_eq!(b.request().await.body["model"], "second");
    let told = events(&app, "RUN_STARTED,LLM_STREAM_START,LLM_STREAM_ERROR,LLM_STREAM_METADATA,LLM_STREAM_END").await;
    let kinds: Vec<&str> = told.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "RUN_STARTED",
            "LLM_STREAM_START",
            "LLM_STREAM_ERROR",
            "LLM_STREAM_START",
            "LLM_STREAM_METADATA",
            "LLM_STREAM_END"
        ]
    );
    let [run, first, error, second, figures, end] = &told[..] else { unreachable!() };
    let who = |it: &Value| (it["content"]["provider"].clone(), it["content"]["model"].clone());
    assert_eq!((who(run), who(first)), ((json!("a"), json!("first")), (json!("a"), json!("first"))));
    assert_eq!((who(second), who(figures)), ((json!("b"), json!("second")), (json!("b"), json!("second"))));
    assert_eq!((&error["content"]["code"], &error["content"]["retryable"]), (&json!("refused"), &json!(true)));
    assert_eq!(error["content"]["httpStatus"], 403);
    assert_ne!(first["content"]["streamId"], second["content"]["streamId"]);
    assert_eq!(end["content"]["streamId"], second["content"]["streamId"]);
    let models = app.get("/usage?groupBy=model").await.expect(200);
    assert_eq!((&models["items"][0]["provider"], models["items"].as_array().unwrap().len()), (&json!("b"), 1));
}

#[tokio::test]
async fn when_none_answers_the_run_fails_with_the_last_ones_reason() {
    let refused = |why: &str| vec![answer("403 Forbidden", "", &json!({"error": {"message": why}}).to_string())];
    let (app, ..) = chain(refused("a says no"), refused("b says no")).await;
    let said = app.finish("t1", "hi").await;
    assert_eq!(said["metadata"]["status"], "error", "{said:#}");
    assert_eq!(said["metadata"]["error"]["code"], "model_refused");
    assert!(said["metadata"]["error"]["message"].as_str().unwrap().contains("b says no"), "{said:#}");
    let told = events(&app, "LLM_STREAM_ERROR").await;
    let again: Vec<&Value> = told.iter().map(|it| &it["content"]["retryable"]).collect();
    assert_eq!(again, [&json!(true), &json!(false)]);
}
