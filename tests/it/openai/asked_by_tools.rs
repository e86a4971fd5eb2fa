//! Questions that tools ask while they keep running: the run stays `running`, and whoever does not answer is asked again.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{answered, chat, said, with};
use crate::mcp::bed::{asking_app, scripted_app};
use crate::support::app::App;
use crate::support::http::soon;

const RED: &str = r#"{"colour": "red"}"#;

/// Two steps at once, each of which calls a tool that asks while it runs. The tools are of different servers, because
/// a server cannot say which of its calls asks.
const TWO_ASK: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "A", intent = "A", plan = "A", todoList = [
    { id = "one", description = "Ask", stepType = "tool", requiredTools = ["evil__elicit"] },
    { id = "two", description = "Ask too", stepType = "tool", requiredTools = ["other__elicit"] },
] }
[[reply]]
when = { phase = "execution", item = "one", iteration = 1 }
calls = [{ tool = "evil__elicit", arguments = {} }]
[[reply]]
when = { phase = "execution", item = "two", iteration = 1 }
calls = [{ tool = "other__elicit", arguments = {} }]
[[reply]]
when = { phase = "execution" }
text = "Done."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

/// A server with a thread `t` that makes two steps at once.
async fn asking_twice() -> (App, TempDir) {
    let (app, folder) = scripted_app(TWO_ASK, &["evil", "other"]).await;
    let config = json!({ "executionConfig": { "maxParallelItems": 2 } });
    app.post("/threads", json!({ "threadId": "t", "config": config })).await.expect(201);
    (app, folder)
}

/// Waits until both tools have asked.
async fn both_have_asked(app: &App) {
    let ask = app.ask("GET", "/threads/t/events?types=AGENT_SUSPENDED&tokens=false");
    let mut events = ask.header("accept", "text/event-stream").events().await;
    let mut asked = 0;
    while asked < 2 {
        asked += usize::from(soon(events.next()).await.expect("it goes on").event == "observation");
    }
}

/// How the question of the tool that did not ask this begins.
fn other_question(question: &str) -> &'static str {
    if question.starts_with("evil__elicit asks: Your colour?") {
        return "other__elicit asks: Your colour?";
    }
    assert!(question.starts_with("other__elicit asks: Your colour?"), "{question}");
    "evil__elicit asks: Your colour?"
}

fn input(input: impl Into<Value>, more: Value) -> Value {
    with(json!({ "model": "pes", "input": input.into() }), more)
}

async fn respond(app: &App, body: &Value) -> Value {
    app.ask("POST", "/v1/responses").json(body).send().await.expect(200)
}

/// The texts of the messages; checks that the response is complete.
fn text(response: &Value) -> String {
    assert_eq!(response["status"], "completed", "{response:#}");
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    items.map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_response_to_what_is_no_answer_asks_again_although_the_tool_keeps_running() {
    let (app, _folder) = asking_app().await;
    let first = respond(&app, &input("ask", json!({}))).await;
    let question = text(&first);
    assert!(question.starts_with("evil__elicit asks: Your colour?"), "{question}");
    let thread = first["metadata"]["pes_thread"].as_str().unwrap();
    // The client was shown something else last, so its text answers nothing.
    let turn = |role: &str, content: &str| json!({ "role": role, "content": content });
    let said = json!([turn("user", "ask"), turn("assistant", "Something else."), turn("user", RED)]);
    let unclear = |more: Value| with(input(said.clone(), more), json!({ "conversation": thread }));
    let again = respond(&app, &unclear(json!({}))).await;
    assert_eq!(text(&again), question);
    assert_ne!(again["completed_at"], 0, "{again:#}");
    let events = app.ask("POST", "/v1/responses").json(&unclear(json!({ "stream": true }))).events().await.all().await;
    let last = events.last().unwrap();
    assert_eq!((last.event.as_str(), text(&last.data["response"])), ("response.completed", question.clone()));
    let background = respond(&app, &unclear(json!({ "background": true }))).await;
    assert_eq!(text(&background), question);
    assert_eq!(answered(&app, thread).await, 0);
    let done = respond(&app, &input(RED, json!({ "previous_response_id": background["id"] }))).await;
    assert_eq!(text(&done), "All done.");
    // What was answered since changes no earlier response.
    for response in [first, again, background] {
        let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
        assert_eq!(app.get(&path).await.expect(200), response);
    }
}

#[tokio::test]
async fn of_two_tools_that_ask_one_is_answered_and_the_response_asks_for_the_other() {
    let (app, _folder) = asking_twice().await;
    let first = respond(&app, &input("ask", json!({ "conversation": "t" }))).await;
    let other = other_question(&text(&first));
    both_have_asked(&app).await;
    let answer = async |previous: &Value| respond(&app, &input(RED, json!({ "previous_response_id": previous }))).await;
    let second = answer(&first["id"]).await;
    assert!(text(&second).starts_with(other), "{second:#}");
    // The same text again was not for this question.
    let again = answer(&first["id"]).await;
    assert_eq!((text(&again), answered(&app, "t").await), (text(&second), 1));
    assert_eq!(text(&answer(&again["id"]).await), "All done.");
    let path = format!("/v1/responses/{}", second["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200), second);
}

#[tokio::test]
async fn of_two_tools_that_ask_one_is_answered_and_the_chat_asks_for_the_other() {
    let (app, _folder) = asking_twice().await;
    let ask = |text: &str| chat(&app, &said(text)).header("x-pes-thread", "t");
    let content = |answer: &Value| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let first = content(&ask("ask").send().await.expect(200));
    let other = other_question(&first);
    both_have_asked(&app).await;
    let second = content(&ask(RED).send().await.expect(200));
    assert!(second.starts_with(other) && !second.contains(&first), "{second}");
    let repeated = ask(RED).header("x-stainless-retry-count", "1").send().await;
    assert_eq!((content(&repeated.expect(200)), answered(&app, "t").await), (second, 1));
    assert_eq!(content(&ask(RED).send().await.expect(200)), "All done.");
    assert_eq!(answered(&app, "t").await, 2);
}
