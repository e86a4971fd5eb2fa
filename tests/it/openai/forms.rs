//! Answers as JSON: `response_format` of a chat completion, `text.format` of a response.

use serde_json::{Value, json};

use super::params::READS;
use super::{chat, said, with};
use crate::support::app::App;

/// The first answer does not match the schema.
const CITIES: &str = r#"
[[reply]]
when = { phase = "synthesis" }
text = "It is in Rome."

[[reply]]
when = { phase = "repair" }
text = '{"city": "Rome"}'
"#;

const ANSWER: &str = r#"{"city": "Rome"}"#;

fn schema() -> Value {
    let city = json!({ "city": { "type": "string" } });
    json!({ "type": "object", "properties": city, "required": ["city"], "additionalProperties": false })
}

fn of_chat() -> Value {
    let named = json!({ "name": "place", "schema": schema(), "strict": true });
    with(said("where?"), json!({ "response_format": { "type": "json_schema", "json_schema": named } }))
}

fn of_response(more: Value) -> Value {
    let format = json!({ "type": "json_schema", "name": "place", "schema": schema(), "strict": true });
    with(json!({ "model": "pes", "input": "where?", "text": { "format": format } }), more)
}

#[tokio::test]
async fn a_completion_is_json_that_fits_and_nothing_else() {
    let app = App::scripted(&[READS, CITIES].concat(), |_| {}).await;
    let whole = chat(&app, &of_chat()).send().await.expect(200);
    assert_eq!(whole["choices"][0]["message"]["content"], ANSWER);
    let streamed = super::streamed(&app, of_chat()).await;
    assert_eq!((streamed.joined("content").as_str(), streamed.finish()), (ANSWER, Some("stop")));
    let any = with(said("where?"), json!({ "response_format": { "type": "json_object" } }));
    assert_eq!(super::streamed(&app, any).await.joined("content"), ANSWER);
}

#[tokio::test]
async fn a_response_is_json_that_fits_and_the_same_when_it_is_had_again() {
    let app = App::scripted(&[READS, CITIES].concat(), |_| {}).await;
    let ask = app.ask("POST", "/v1/responses").json(&of_response(json!({ "stream": true })));
    let live = ask.events().await.all().await;
    let response = &live.last().unwrap().data["response"];
    let messages: Vec<&Value> =
        response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message").collect();
    assert_eq!(messages.len(), 1, "{response:#}");
    assert_eq!(messages[0]["content"][0]["text"], ANSWER);
    assert_eq!(response["text"], of_response(json!({}))["text"]);
    let said: String = live
        .iter()
        .filter(|event| event.event == "response.output_text.delta")
        .map(|event| event.data["delta"].as_str().unwrap())
        .collect();
    assert_eq!(said, ANSWER);
    let path = format!("/v1/responses/{}?stream=true", response["id"].as_str().unwrap());
    assert_eq!(app.ask("GET", &path).events().await.all().await, live);
}

#[tokio::test]
async fn an_answer_that_never_fits_is_an_error_and_no_answer() {
    let app = App::scripted(&[READS, &CITIES.replace("city", "town")].concat(), |_| {}).await;
    let answer = chat(&app, &of_chat()).send().await;
    let error = &answer.expect(400)["error"];
    assert_eq!((error["code"].as_str(), answer.header("x-should-retry")), (Some("synthesis_failed"), Some("false")));
    assert!(error["message"].as_str().unwrap().contains("answerSchema"), "{error:#}");
    let answer = app.ask("POST", "/v1/responses").json(&of_response(json!({}))).send().await;
    assert_eq!(answer.expect(400)["error"]["code"], "synthesis_failed");
}

#[tokio::test]
async fn a_run_is_asked_for_the_form_over_rest() {
    let app = App::scripted(&[READS, CITIES].concat(), |_| {}).await;
    let ask = |schema: Value| json!({ "query": "where?", "options": { "answerSchema": schema } });
    let refused = app.post("/threads/t/process", ask(json!({ "type": "cat" }))).await;
    let pointers = refused.expect(422)["errors"].clone();
    assert_eq!(pointers[0]["pointer"], "/options/answerSchema/type", "{pointers:#}");
    let wait = app.ask("POST", "/threads/t/process").json(&ask(schema())).header("Prefer", "wait=60");
    let done = wait.send().await.expect(200);
    assert_eq!(done["response"]["content"], ANSWER);
    let runs = app.get("/threads/t/runs").await.expect(200);
    assert_eq!(runs["items"][0]["options"]["answerSchema"], schema());
}

/// Its model is not one of this script: it answers in plain text.
#[tokio::test]
async fn text_is_asked_for_by_nothing_or_by_its_name() {
    let app = App::start().await;
    for format in [json!(null), json!({ "type": "text" })] {
        let whole = chat(&app, &with(said("hello"), json!({ "response_format": format }))).send().await.expect(200);
        assert_eq!(whole["choices"][0]["message"]["content"], "Hello there.");
    }
}
