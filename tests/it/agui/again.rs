//! A client that sends an earlier conversation: another answer, an edited message, a new thread.

use serde_json::{Value, json};

use super::{ask, input, interrupts, text, told, user, with};
use crate::openai::beside::users;
use crate::support::app::App;

/// The agent repeats what the user says.
const ECHO: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "E", intent = "E", plan = "E.", answer = "You said {{query}}.", todoList = [] }

[[reply]]
when = { phase = "refinement" }
json = { title = "E", intent = "E", plan = "E.", answer = "You said {{query}}.", todoList = [] }
"#;

fn agent(text: &str) -> Value {
    json!({ "id": format!("theirs-{text}"), "role": "assistant", "content": format!("You said {text}.") })
}

/// The last prompt of the thread.
async fn prompt(app: &App, thread: &str) -> String {
    let (_, stream) = app.model_calls(thread).await.pop().expect("a model call");
    app.prompt(thread, &stream).await
}

#[tokio::test]
async fn another_answer_and_an_edited_message_take_the_place_of_what_they_replace() {
    let app = App::scripted(ECHO, |_| {}).await;
    let say = async |run: &str, messages: &[Value]| text(&told(ask(&app, &input("t", run, messages))).await);
    say("r1", &[user("apples")]).await;
    let second = [user("apples"), agent("apples"), user("pears")];
    say("r2", &second).await;
    // The same request again is the same run.
    assert_eq!(say("r2", &second).await, "You said pears.");
    assert_eq!(say("r3", &second).await, "You said pears.");
    assert_eq!(users(&app, "t").await, ["apples", "pears"]);
    let again = prompt(&app, "t").await;
    assert!(again.contains("You said apples.") && !again.contains("You said pears."), "{again}");
    // An edited message has an id of its own in most clients.
    assert_eq!(say("r4", &[user("apples"), agent("apples"), user("plums")]).await, "You said plums.");
    assert_eq!(users(&app, "t").await, ["apples", "plums"]);
    assert!(!prompt(&app, "t").await.contains("pears"));
    // A client that shows nothing before it continues at the end, and so does one that the thread is news to.
    assert_eq!(say("r5", &[user("figs")]).await, "You said figs.");
    assert_eq!(users(&app, "t").await, ["apples", "plums", "figs"]);
    let edited = with(user("grapes"), "id", json!("mine-apples"));
    assert_eq!(say("r6", &[edited]).await, "You said grapes.");
    assert_eq!(users(&app, "t").await, ["grapes"]);
    let connected = told(app.ask("POST", "/agui/connect").json(&input("t", "c", &[]))).await;
    assert_eq!(connected[1]["messages"].as_array().unwrap().len(), 2, "{connected:#?}");
}

/// A message that came by another way is not known to the client, so that it does not show it is no reason to go back.
#[tokio::test]
async fn what_was_said_elsewhere_stays() {
    let app = App::scripted(ECHO, |_| {}).await;
    told(ask(&app, &input("t", "r1", &[user("apples")]))).await;
    app.finish("t", "pears").await;
    told(ask(&app, &input("t", "r2", &[user("apples"), agent("apples"), user("plums")]))).await;
    assert_eq!(users(&app, "t").await, ["apples", "pears", "plums"]);
}

/// A second tab does not show what the first one said since.
#[tokio::test]
async fn a_new_message_takes_back_nothing_that_still_runs() {
    let app = App::start().await;
    told(ask(&app, &input("t", "r1", &[user("hello")]))).await;
    let asked = told(ask(&app, &input("t", "r2", &[user("hello"), agent("hello"), user("send")]))).await;
    assert_eq!(interrupts(&asked).len(), 1);
    let refused = told(ask(&app, &input("t", "r3", &[user("hello"), agent("hello"), user("count")]))).await;
    assert_eq!(refused[1]["code"], "thread_busy", "{refused:#?}");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(users(&app, "t").await, ["hello", "send"]);
}

#[tokio::test]
async fn a_new_message_takes_back_nothing_that_others_said() {
    let other = "key-c-0123456789abcdef0123456789";
    let app = App::with_keys_and(|config| config.auth.keys.push(format!("one/other:admin:{other}").parse().unwrap()));
    let app = app.await.key("key-a-0123456789abcdef0123456789");
    told(ask(&app, &input("t", "r1", &[user("hello")]))).await;
    let app = app.key(other);
    told(ask(&app, &input("t", "r2", &[user("hello"), agent("hello"), user("count")]))).await;
    let app = app.key("key-a-0123456789abcdef0123456789");
    told(ask(&app, &input("t", "r3", &[user("hello"), agent("hello"), user("calls")]))).await;
    assert_eq!(users(&app, "t").await, ["hello", "count", "calls"]);
}

#[tokio::test]
async fn a_message_that_is_sent_again_takes_back_what_was_asked_about_it() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("send")]))).await;
    assert_eq!(interrupts(&asked).len(), 1);
    let edited = with(user("hello"), "id", json!("mine-send"));
    assert!(text(&told(ask(&app, &input("t", "r2", &[edited]))).await).starts_with("Hello"));
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]));
    assert_eq!(users(&app, "t").await, ["hello"]);
}

/// Between them it would have to be looked for in all of the thread, and so would every new message that is sent alone.
#[tokio::test]
async fn a_message_that_is_sent_again_alone_is_looked_for_at_both_ends_of_its_thread() {
    let app = App::scripted(ECHO, |_| {}).await;
    let say = async |run: &str, text: &str| told(ask(&app, &input("t", run, &[user(text)]))).await;
    let texts: Vec<String> = (0..10).map(|at| format!("q{at}")).collect();
    for text in &texts {
        say(text, text).await;
    }
    say("between", "q1").await;
    assert_eq!(users(&app, "t").await, [&texts[..], &texts[1..2]].concat());
    say("first", "q0").await;
    assert_eq!(users(&app, "t").await, ["q0"]);
}

/// As CopilotKit does for its suggestions.
#[tokio::test]
async fn a_new_thread_begins_with_the_conversation_that_is_sent() {
    let app = App::scripted(ECHO, |config| config.limits.history_messages = 2).await;
    let picture =
        json!({ "id": "p", "role": "user", "content": [{ "type": "binary" }, { "type": "text", "text": "See." }] });
    let sent = [user("apples"), agent("apples"), picture, agent("pears"), user("Suggest.")];
    assert_eq!(text(&told(ask(&app, &input("t", "r1", &sent))).await), "You said Suggest..");
    assert_eq!(users(&app, "t").await, ["See.", "Suggest."], "the newest ones, and of them the text");
    let seen = prompt(&app, "t").await;
    assert!(seen.contains("See.") && seen.contains("You said pears.") && !seen.contains("apples"), "{seen}");
}

#[tokio::test]
async fn a_thread_with_a_state_and_no_message_takes_its_first_query() {
    let app = App::scripted(ECHO, |_| {}).await;
    app.post("/threads", json!({ "threadId": "t" })).await.expect(201);
    app.ask("PUT", "/threads/t/agent-state").json(&json!({ "data": { "mood": "good" } })).send().await.expect(200);
    let sent = [user("apples"), agent("apples"), user("pears")];
    assert_eq!(text(&told(ask(&app, &input("t", "r1", &sent))).await), "You said pears.");
    assert_eq!(users(&app, "t").await, ["pears"]);
}

#[tokio::test]
async fn what_the_system_and_the_developer_say_is_told_to_the_model() {
    let app = App::scripted(ECHO, |_| {}).await;
    let said = |role: &str, text: &str| json!({ "id": text, "role": role, "content": text });
    let messages = [said("system", "Speak Latin."), said("developer", "Be short."), said("system", " "), user("hello")];
    let context = json!([{ "description": "The page", "value": "start" }]);
    told(ask(&app, &with(input("t", "r1", &messages), "context", context))).await;
    let seen = prompt(&app, "t").await;
    assert!(seen.contains(r"Speak Latin.\n\nBe short.\n\nThe page: start"), "{seen}");
}
