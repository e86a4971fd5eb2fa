//! What a user says beside the result of a function.

use serde_json::{Value, json};

use super::{chat, said, with};
use crate::support::app::App;

/// Where the user is, for a core with a plan and one without.
pub const LOCATES: &str = r#"
[[reply]]
when = { query = "where", phase = "planning" }
json = { title = "W", intent = "W", plan = "W.", todoList = [
    { id = "place", description = "Find out where", stepType = "tool", requiredTools = ["get_location"] },
] }

[[reply]]
when = { query = "where", phase = "refinement" }
json = { title = "W", intent = "W", plan = "W.", todoList = [
    { id = "place", description = "Find out where", stepType = "tool", requiredTools = ["get_location"] },
] }

[[reply]]
when = { query = "where", phase = "execution", iteration = 1 }
calls = [{ tool = "get_location", arguments = {} }]

[[reply]]
when = { query = "where", phase = "execution" }
text = "You are in Rome."

[[reply]]
when = { query = "where", phase = "synthesis" }
text = "You are in Rome."

[[reply]]
when = { query = "thanks", phase = "planning" }
json = { title = "T", intent = "T", plan = "T.", answer = "Any time.", todoList = [] }

[[reply]]
when = { query = "thanks", phase = "execution" }
text = "Any time."

[[reply]]
when = { query = "thanks", phase = "refinement" }
json = { title = "T", intent = "T", plan = "T.", answer = "Any time.", todoList = [] }
"#;

const MORE: &str = "Please answer in French.";

fn parameters() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// The phase of each model call, and whether its prompt has what the user said more.
pub async fn seen(app: &App, thread: &str, more: &str) -> Vec<(String, bool)> {
    let mut seen = Vec::new();
    for (phase, stream) in app.model_calls(thread).await {
        seen.push((phase, app.prompt(thread, &stream).await.contains(more)));
    }
    seen
}

fn phases(seen: &[(&str, bool)]) -> Vec<(String, bool)> {
    seen.iter().map(|(phase, is_seen)| ((*phase).to_owned(), *is_seen)).collect()
}

/// The user's messages of the thread.
pub async fn users(app: &App, thread: &str) -> Vec<String> {
    let messages = app.get(&format!("/threads/{thread}/messages")).await.expect(200);
    let messages = messages["items"].as_array().unwrap().iter().filter(|message| message["role"] == "USER");
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_a_user_says_beside_a_result_is_told_to_the_model() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let function = json!({ "name": "get_location", "parameters": parameters() });
    let planned =
        [("planning", false), ("execution", false), ("planning", true), ("execution", true), ("synthesis", true)];
    let single = [("execution", false), ("execution", true)];
    for (model, expected) in [("pes", &planned[..]), ("react", &single)] {
        let sent = |messages: Value| {
            let tools = json!([{ "type": "function", "function": function }]);
            with(said(""), json!({ "model": model, "tools": tools, "messages": messages }))
        };
        let user = |text: &str| json!({ "role": "user", "content": text });
        let called = chat(&app, &sent(json!([user("where")]))).send().await.expect(200);
        let call = called["choices"][0]["message"].clone();
        let result = json!({ "role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "Rome" });
        let turn = json!([user("where"), call, result, user(MORE)]);
        let answer = chat(&app, &sent(turn.clone())).send().await;
        let thread = answer.header("x-pes-thread").unwrap().to_owned();
        let message = answer.expect(200)["choices"][0]["message"].clone();
        assert_eq!(message["content"], "You are in Rome.", "{model}");
        assert_eq!(users(&app, &thread).await, ["where", MORE], "{model}");
        assert_eq!(seen(&app, &thread, MORE).await, phases(expected), "{model}");
        // The conversation goes on in the same thread.
        let next = json!([turn[0], turn[1], turn[2], turn[3], message, user("thanks")]);
        let next = chat(&app, &sent(next)).send().await;
        assert_eq!(next.header("x-pes-thread"), Some(thread.as_str()), "{model}: {}", next.text());
    }
}

/// The run is still suspended after the first result, with which the text comes.
#[tokio::test]
async fn what_a_user_says_beside_several_results_ends_no_completion() {
    let script = r#"
        [[reply]]
        when = { query = "where", iteration = 1 }
        calls = [{ tool = "get_location", arguments = {} }, { tool = "get_time", arguments = {} }]

        [[reply]]
        when = { query = "where" }
        text = "You are in Rome, at noon."
    "#;
    let app = App::scripted(script, |_| {}).await;
    let tools = ["get_location", "get_time"]
        .map(|name| json!({ "type": "function", "function": { "name": name, "parameters": parameters() } }));
    let sent = |messages: Value| with(said(""), json!({ "model": "react", "tools": tools, "messages": messages }));
    let user = |text: &str| json!({ "role": "user", "content": text });
    let called = chat(&app, &sent(json!([user("where")]))).send().await.expect(200);
    let message = &called["choices"][0]["message"];
    let result = |at: usize, content: &str| {
        let call = &message["tool_calls"][at]["id"];
        json!({ "role": "tool", "tool_call_id": call, "content": content })
    };
    let turn = json!([user("where"), message, result(0, "Rome"), result(1, "noon"), user(MORE)]);
    let answer = chat(&app, &sent(turn)).send().await;
    let thread = answer.header("x-pes-thread").unwrap().to_owned();
    assert_eq!(answer.expect(200)["choices"][0]["message"]["content"], "You are in Rome, at noon.");
    assert_eq!(users(&app, &thread).await, ["where", MORE]);
}

#[tokio::test]
async fn nor_is_it_lost_in_a_response() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let tools = json!([{ "type": "function", "name": "get_location", "parameters": parameters() }]);
    let respond = async |more: Value| {
        let body = with(json!({ "model": "pes", "tools": tools }), more);
        app.ask("POST", "/v1/responses").json(&body).send().await.expect(200)
    };
    let first = respond(json!({ "input": "where" })).await;
    let output = first["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap_or_else(|| panic!("{first:#}"));
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "Rome" });
    let input = json!([output, { "role": "user", "content": MORE }]);
    let second = respond(json!({ "input": input, "previous_response_id": first["id"] })).await;
    assert_eq!(second["status"], "completed", "{second:#}");
    let thread = second["metadata"]["pes_thread"].as_str().unwrap();
    assert_eq!(users(&app, thread).await, ["where", MORE]);
    let expected =
        [("planning", false), ("execution", false), ("planning", true), ("execution", true), ("synthesis", true)];
    assert_eq!(seen(&app, thread, MORE).await, phases(&expected));
    // A later response that continues this one finds where it ended.
    let third = respond(json!({ "input": "thanks", "previous_response_id": second["id"] })).await;
    assert_eq!(third["metadata"]["pes_thread"], thread, "{third:#}");
}

/// It repeats the results of earlier turns, which answer nothing any more. Some clients leave out the ids of items.
#[tokio::test]
async fn a_client_that_sends_the_whole_conversation_goes_on_after_its_results() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let tools = json!([{ "type": "function", "name": "get_location", "parameters": parameters() }]);
    for has_ids in [true, false] {
        let respond = async |input: &[Value]| {
            let body = json!({ "model": "pes", "tools": tools, "store": false, "input": input });
            app.ask("POST", "/v1/responses").json(&body).send().await.expect(200)
        };
        let shown = |response: &Value| {
            let mut items = response["output"].as_array().unwrap().clone();
            items.iter_mut().filter(|_| !has_ids).for_each(|item| drop(item.as_object_mut().unwrap().remove("id")));
            items
        };
        let mut input = vec![json!({ "role": "user", "content": "where" })];
        let first = respond(&input).await;
        input.extend(shown(&first));
        let call = input.last().unwrap().clone();
        assert_eq!(call["type"], "function_call", "{first:#}");
        input.push(json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "Rome" }));
        let second = respond(&input).await;
        assert_eq!(second["status"], "completed", "{second:#}");
        input.extend(shown(&second));
        input.push(json!({ "role": "user", "content": "thanks" }));
        let third = respond(&input).await;
        assert_eq!(third["metadata"]["pes_thread"], first["metadata"]["pes_thread"], "{third:#}");
        assert_eq!(third["output"].as_array().unwrap().last().unwrap()["content"][0]["text"], "Any time.", "{third:#}");
        let thread = third["metadata"]["pes_thread"].as_str().unwrap();
        assert_eq!(users(&app, thread).await, ["where", "thanks"]);
        if has_ids {
            *input.last_mut().unwrap() = json!({ "role": "user", "content": "where" });
            let other = respond(&input).await;
            assert_ne!(other["metadata"]["pes_thread"], thread, "it went back to before that, and has a copy");
            assert_eq!(users(&app, thread).await, ["where", "thanks"]);
        }
    }
}
