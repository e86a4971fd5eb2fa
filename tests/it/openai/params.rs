//! How an answer is to be written.

use serde_json::{Value, json};

use super::{chat, said, with};
use crate::support::app::App;

/// The settings that the run of an answer was accepted with.
async fn options(app: &App, body: &Value) -> Value {
    let answer = chat(app, body).send().await;
    answer.expect(200);
    app.get(&format!("/runs/{}", answer.header("x-pes-run").unwrap())).await.expect(200)["options"].clone()
}

#[tokio::test]
async fn what_bounds_an_answer_bounds_no_plan() {
    let app = App::start().await;
    for name in ["max_tokens", "max_completion_tokens"] {
        let more = json!({
            name: 9, "stop": ["END"], "frequency_penalty": 0.5, "presence_penalty": -1, "temperature": 0.2, "top_p": 0.9,
        });
        let options = options(&app, &with(said("hello"), more)).await;
        assert_eq!(options["llmParams"], json!({ "temperature": 0.2, "topP": 0.9 }));
        let of_answer = json!({ "maxTokens": 9, "stop": ["END"], "frequencyPenalty": 0.5, "presencePenalty": -1 });
        assert_eq!(options["synthesisParams"], of_answer);
    }
    let body = json!({ "model": "pes", "input": "hello", "max_output_tokens": 9 });
    let response = app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
    let run = app.get(&format!("/runs/{}", response["metadata"]["pes_run"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["options"]["synthesisParams"], json!({ "maxTokens": 9 }));
}
