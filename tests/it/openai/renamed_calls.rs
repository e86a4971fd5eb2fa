//! Results of functions under ids that the client has given to the calls itself.

use serde_json::{Value, json};

use super::beside::LOCATES;
use super::{chat, said, with};
use crate::support::app::App;
use crate::support::http::Ask;

fn ask(app: &App, messages: &[Value]) -> Ask {
    let function = json!({ "name": "get_location", "parameters": { "type": "object", "properties": {} } });
    let tools = [json!({ "type": "function", "function": function })];
    chat(app, &with(said(""), json!({ "tools": tools, "messages": messages })))
}

fn query() -> Value {
    json!({ "role": "user", "content": "where" })
}

/// The conversation with a result for a call of this function.
fn answered(function: &str) -> Vec<Value> {
    let called = json!({ "name": function, "arguments": "{}" });
    let calls = [json!({ "id": "toolu_1", "type": "function", "function": called })];
    vec![
        query(),
        json!({ "role": "assistant", "content": "", "tool_calls": calls }),
        json!({ "role": "tool", "tool_call_id": "toolu_1", "content": "Rome" }),
    ]
}

#[tokio::test]
async fn a_result_is_that_of_the_open_call_with_its_name_and_arguments() {
    let app = App::scripted(LOCATES, |_| {}).await;
    for name in [None, Some("mine")] {
        let ask = |messages: &[Value]| {
            let asked = ask(&app, messages);
            name.into_iter().fold(asked, |asked, name| asked.header("x-pes-thread", name))
        };
        let first = ask(&[query()]).send().await;
        assert_eq!(first.expect(200)["choices"][0]["finish_reason"], "tool_calls");
        if name.is_none() {
            ask(&answered("get_time")).send().await.expect(400);
        }
        let done = ask(&answered("get_location")).send().await;
        assert_eq!(done.expect(200)["choices"][0]["message"]["content"], "You are in Rome.");
        assert_eq!(done.header("x-pes-run"), first.header("x-pes-run"));
    }
    ask(&app, &answered("get_location")).send().await.expect(400);
}

#[tokio::test]
async fn a_result_that_two_conversations_wait_for_is_taken_for_neither() {
    let app = App::scripted(LOCATES, |_| {}).await;
    for _ in 0..2 {
        ask(&app, &[query()]).send().await.expect(200);
    }
    ask(&app, &answered("get_location")).send().await.expect(400);
    assert_eq!(app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().len(), 2);
}
