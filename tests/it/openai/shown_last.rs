//! A text answers only the question that its client was shown last.

use pes::config::Config;
use pes::domain::settings::PolicyAction;
use serde_json::{Value, json};

use super::{answered, chat, turns};
use crate::support::app::App;

/// Every calculation needs an approval.
fn gate(config: &mut Config) {
    config.agent.tool_policy.insert("calc*".to_owned(), PolicyAction::Ask);
}

/// A server whose model makes two calculations at once, each of which needs an approval.
async fn gated_twice() -> App {
    const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { todoList = [{ id = "sums", description = "Two sums", stepType = "tool", requiredTools = ["calculator"] }] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [
    { tool = "calculator", arguments = { expression = "1 + 1" } },
    { tool = "calculator", arguments = { expression = "2 + 2" } },
]

[[reply]]
when = { phase = "execution" }
text = "Summed."

[[reply]]
when = { phase = "synthesis" }
text = "Two and four."
"#;
    App::scripted(SCRIPT, gate).await
}

/// What is shown after these texts of the user and the agent in turns.
async fn talk(app: &App, texts: &[&str]) -> String {
    let answer = chat(app, &turns(texts)).header("x-pes-thread", "mine").send().await;
    answer.expect(200)["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

async fn respond_to(app: &App, input: &str, previous: &Value) -> Value {
    let body = json!({ "model": "pes", "input": input, "previous_response_id": previous });
    app.ask("POST", "/v1/responses").json(&body).send().await.expect(200)
}

#[tokio::test]
async fn a_yes_that_is_sent_again_approves_no_later_call() {
    let app = App::with(gate).await;
    let on = async |texts: &[&str]| talk(&app, texts).await;
    let first = on(&["in turn"]).await;
    let second = on(&["in turn", &first, "yes"]).await;
    assert_ne!(first, second);
    assert_eq!(on(&["in turn", &first, "yes"]).await, second, "it is asked again");
    assert_eq!(answered(&app, "mine").await, 1);
    // The model's thinking may come before it, and blanks do not count.
    let shown = format!("<think>Hm.</think>\n\n  {second}\n");
    assert_eq!(on(&["in turn", &first, "yes", &shown, "yes"]).await, "Two, then four.");
    assert_eq!(answered(&app, "mine").await, 2);
}

fn text(response: &Value) -> &str {
    response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_yes_goes_on_from_the_response_that_asked() {
    let app = App::with(gate).await;
    let respond = async |input: &str, previous: &Value| respond_to(&app, input, previous).await;
    let first = respond("in turn", &Value::Null).await;
    let thread = first["metadata"]["pes_thread"].as_str().unwrap();
    let second = respond("yes", &first["id"]).await;
    assert_ne!(text(&first), text(&second));
    let again = respond("yes", &first["id"]).await;
    assert_eq!(text(&again), text(&second), "it is asked again");
    assert_eq!(answered(&app, thread).await, 1);
    assert_eq!(text(&respond("yes", &again["id"]).await), "Two, then four.");
    assert_eq!(answered(&app, thread).await, 2);
}

#[tokio::test]
async fn a_yes_behind_the_items_of_the_response_that_asked_answers_it() {
    let app = App::with(gate).await;
    let respond = async |input: &Value| {
        let body = json!({ "model": "pes", "input": input, "store": false });
        app.ask("POST", "/v1/responses").json(&body).send().await.expect(200)
    };
    let mut input = vec![json!({ "role": "user", "content": "in turn" })];
    for expected in ["1 + 1", "2 + 2"] {
        let response = respond(&json!(input)).await;
        assert!(text(&response).contains(expected), "{response:#}");
        input.extend(response["output"].as_array().unwrap().clone());
        input.push(json!({ "role": "user", "content": "yes" }));
    }
    assert_eq!(text(&respond(&json!(input)).await), "Two, then four.");
}

/// Two approvals are open at once: a text answers the first, even if it is sent twice.
#[tokio::test]
async fn a_yes_that_is_sent_again_approves_no_call_that_was_asked_for_beside_it() {
    let app = gated_twice().await;
    let on = async |texts: &[&str]| talk(&app, texts).await;
    let both = on(&["sums"]).await;
    assert!(both.contains("1 + 1") && both.contains("2 + 2"), "{both}");
    let second = on(&["sums", &both, "yes"]).await;
    assert!(!second.contains("1 + 1") && second.contains("2 + 2"), "{second}");
    assert_eq!(on(&["sums", &both, "yes"]).await, second, "it is asked again");
    assert_eq!(answered(&app, "mine").await, 1);
    assert_eq!(on(&["sums", &both, "yes", &second, "yes"]).await, "Two and four.");
    assert_eq!(answered(&app, "mine").await, 2);
}

#[tokio::test]
async fn a_yes_behind_a_response_is_for_the_first_that_it_asked() {
    let app = gated_twice().await;
    let respond = async |input: &str, previous: &Value| respond_to(&app, input, previous).await;
    let both = respond("sums", &Value::Null).await;
    let thread = both["metadata"]["pes_thread"].as_str().unwrap();
    let second = respond("yes", &both["id"]).await;
    assert!(text(&second).contains("2 + 2"), "{second:#}");
    let again = respond("yes", &both["id"]).await;
    assert_eq!(text(&again), text(&second), "it is asked again");
    assert_eq!(answered(&app, thread).await, 1);
    assert_eq!(text(&respond("yes", &again["id"]).await), "Two and four.");
    assert_eq!(answered(&app, thread).await, 2);
}

/// Approvals have the ids of their questions, which do not identify a response.
#[tokio::test]
async fn a_yes_behind_approvals_is_for_the_first_that_was_asked_for() {
    let app = gated_twice().await;
    let respond = async |input: &[Value]| {
        let tools = json!([{ "type": "mcp", "server_label": "pes", "require_approval": "always" }]);
        let body = json!({ "model": "pes", "input": input, "tools": tools, "store": false });
        app.ask("POST", "/v1/responses").json(&body).send().await.expect(200)
    };
    let asked = |response: &Value| {
        let output = response["output"].as_array().unwrap();
        output.iter().filter(|item| item["type"] == "mcp_approval_request").cloned().collect::<Vec<_>>()
    };
    let (query, yes) = (json!({ "role": "user", "content": "sums" }), json!({ "role": "user", "content": "yes" }));
    let both = respond(std::slice::from_ref(&query)).await;
    let thread = both["metadata"]["pes_thread"].as_str().unwrap();
    let mut input = vec![query];
    input.extend(asked(&both));
    input.push(yes.clone());
    assert_eq!(input.len(), 4, "{both:#}");
    let second = asked(&respond(&input).await);
    assert_eq!(second, [input[2].clone()], "the other is asked for again");
    assert_eq!(asked(&respond(&input).await), second);
    assert_eq!(answered(&app, thread).await, 1);
    input.extend(second);
    input.push(yes);
    assert_eq!(text(&respond(&input).await), "Two and four.");
    assert_eq!(answered(&app, thread).await, 2);
}
