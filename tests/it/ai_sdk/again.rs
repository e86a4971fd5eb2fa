//! A message is sent again, either for another answer or with an edited text.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{body, chat, shown, told, user};
use crate::support::app::App;
use crate::support::wire::{Step, Wire, end, event, event_stream};

fn answers(text: &str) -> Vec<Step> {
    let said = json!({ "title": "t", "intent": "i", "plan": "p", "answer": text, "todoList": [] }).to_string();
    let chunk =
        |delta: Value, reason: Value| event(json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }));
    vec![event_stream(), chunk(json!({ "content": said }), Value::Null), chunk(json!({}), json!("stop")), end()]
}

/// A server whose model gives these answers, and the model.
async fn start(exchanges: Vec<Vec<Step>>) -> (App, Wire) {
    let wire = Wire::serve(exchanges).await;
    let url = wire.url();
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        config.models.choice = vec!["openai:small".parse().unwrap()];
    })
    .await;
    (app, wire)
}

/// The next prompt of the model.
async fn prompt(wire: &mut Wire) -> String {
    wire.request().await.body["messages"].to_string()
}

/// The client's request for another answer.
fn regenerate(id: &str, messages: &[Value], message: Option<&str>) -> Value {
    json!({ "id": id, "messages": messages, "trigger": "regenerate-message", "messageId": message })
}

/// The client's request after its user has edited a message.
fn edit(id: &str, messages: &[Value], message: &str) -> Value {
    json!({ "id": id, "messages": messages, "trigger": "submit-message", "messageId": message })
}

async fn ids(app: &App) -> Vec<String> {
    shown(app, "t").await.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

/// The ids of the user's messages.
async fn users(app: &App) -> Vec<String> {
    ids(app).await.into_iter().filter(|id| id.starts_with("mine-")).collect()
}

#[tokio::test]
async fn another_answer_takes_the_place_of_the_one_before() {
    let (app, mut wire) = start(["Apples.", "Pears.", "Plums.", "Grapes.", "Figs."].map(answers).into()).await;
    let first = told(&app, &body("t", &[user("first")])).await;
    let second = told(&app, &body("t", &[user("second")])).await;
    assert_eq!(second.text(), "Pears.");
    for _ in 0..2 {
        prompt(&mut wire).await;
    }
    let third = told(&app, &regenerate("t", &[user("first"), user("second")], Some(&second.run))).await;
    assert_eq!(third.text(), "Plums.");
    let seen = prompt(&mut wire).await;
    assert!(seen.contains("Apples.") && !seen.contains("Pears."), "{seen}");
    assert_eq!(ids(&app).await, ["mine-first", &first.run, "mine-second", &third.run]);
    // Of the last message, if none is named.
    let fourth = told(&app, &regenerate("t", &[user("first"), user("second")], None)).await;
    assert_eq!(fourth.text(), "Grapes.");
    assert!(!prompt(&mut wire).await.contains("Plums."));
    assert_eq!(ids(&app).await, ["mine-first", &first.run, "mine-second", &fourth.run]);
    // And of an earlier one: the messages after it are superseded.
    let fifth = told(&app, &regenerate("t", &[user("first")], Some(&first.run))).await;
    let seen = prompt(&mut wire).await;
    assert!(seen.contains("first") && !seen.contains("second") && !seen.contains("Apples."), "{seen}");
    assert_eq!(ids(&app).await, ["mine-first", &fifth.run]);
}

#[tokio::test]
async fn a_message_that_was_changed_takes_its_own_place() {
    let (app, mut wire) = start(["Apples.", "Pears.", "Plums."].map(answers).into()).await;
    for text in ["first", "second"] {
        told(&app, &body("t", &[user(text)])).await;
        prompt(&mut wire).await;
    }
    let mut changed = user("other");
    changed["id"] = json!("mine-first");
    let edited = told(&app, &edit("t", &[changed], "mine-first")).await;
    assert_eq!(edited.text(), "Plums.");
    let seen = prompt(&mut wire).await;
    assert!(seen.contains("other") && !seen.contains("first") && !seen.contains("Pears."), "{seen}");
    let messages = shown(&app, "t").await;
    assert_eq!(ids(&app).await, ["mine-first", &edited.run]);
    assert_eq!(messages[0]["parts"][0]["text"], "other");
}

fn agent(run: &str) -> Value {
    json!({ "id": run, "role": "assistant", "parts": [{ "type": "text", "text": "…" }] })
}

/// An editor may set the message and then ask for another answer, also under a new id.
#[tokio::test]
async fn another_answer_is_to_the_message_as_it_is_shown() {
    let (app, mut wire) = start(["Apples.", "Pears.", "Plums.", "Figs.", "Dates."].map(answers).into()).await;
    for text in ["first", "second"] {
        told(&app, &body("t", &[user(text)])).await;
        prompt(&mut wire).await;
    }
    let mut changed = user("other");
    changed["id"] = json!("mine-first");
    let edited = told(&app, &regenerate("t", &[changed.clone()], None)).await;
    assert_eq!(edited.text(), "Plums.");
    let seen = prompt(&mut wire).await;
    assert!(seen.contains("other") && !seen.contains("first") && !seen.contains("Pears."), "{seen}");
    assert_eq!(ids(&app).await, ["mine-first", &edited.run]);
    assert_eq!(shown(&app, "t").await[0]["parts"][0]["text"], "other");
    let next = told(&app, &body("t", &[changed.clone(), agent(&edited.run), user("next")])).await;
    assert_eq!(ids(&app).await, ["mine-first", &edited.run, "mine-next", &next.run]);
    let renamed = told(&app, &regenerate("t", &[user("renamed")], None)).await;
    assert_eq!(renamed.text(), "Dates.");
    assert_eq!(ids(&app).await, ["mine-renamed", &renamed.run]);
}

/// An editor may remove a message with all that follows it, and then send a new one.
#[tokio::test]
async fn a_new_message_takes_the_place_of_those_that_are_shown_no_more() {
    let (app, mut wire) = start(["Apples.", "Pears.", "Plums.", "Figs.", "Dates."].map(answers).into()).await;
    let first = told(&app, &body("t", &[user("first")])).await;
    let second = told(&app, &body("t", &[user("first"), agent(&first.run), user("second")])).await;
    assert_eq!(ids(&app).await, ["mine-first", &first.run, "mine-second", &second.run]);
    let third = told(&app, &body("t", &[user("first"), agent(&first.run), user("third")])).await;
    for _ in 0..2 {
        prompt(&mut wire).await;
    }
    let seen = prompt(&mut wire).await;
    assert!(seen.contains("Apples.") && seen.contains("third") && !seen.contains("second"), "{seen}");
    assert_eq!(ids(&app).await, ["mine-first", &first.run, "mine-third", &third.run]);
    // One that is sent alone, or follows what the chat does not have, goes to the end.
    let fourth = told(&app, &body("t", &[user("fourth")])).await;
    let fifth = told(&app, &body("t", &[user("never came"), user("fifth")])).await;
    let end = ["mine-fourth", &fourth.run, "mine-fifth", &fifth.run];
    assert_eq!(ids(&app).await[4..], end);
}

#[tokio::test]
async fn a_new_message_takes_back_nothing_that_others_said() {
    let (own, other) = ("key-a-0123456789abcdef0123456789", "key-c-0123456789abcdef0123456789");
    let app = App::with_keys_and(|config| config.auth.keys.push(format!("one/other:admin:{other}").parse().unwrap()));
    let app = app.await.key(own);
    let first = told(&app, &body("t", &[user("hello")])).await;
    let app = app.key(other);
    told(&app, &body("t", &[user("hello"), agent(&first.run), user("count")])).await;
    let app = app.key(own);
    let renamed = regenerate("t", &[user("hello"), agent(&first.run), user("renamed")], None);
    chat(&app, &renamed).send().await.problem("invalid");
    told(&app, &body("t", &[user("hello"), agent(&first.run), user("calls")])).await;
    assert_eq!(users(&app).await, ["mine-hello", "mine-count", "mine-calls"]);
}

#[tokio::test]
async fn a_new_message_takes_back_nothing_that_still_runs() {
    let app = App::start().await;
    let first = told(&app, &body("t", &[user("hello")])).await;
    told(&app, &body("t", &[user("hello"), agent(&first.run), user("send")])).await;
    let late = body("t", &[user("hello"), agent(&first.run), user("count")]);
    chat(&app, &late).send().await.problem("thread_busy");
    assert_eq!(users(&app).await, ["mine-hello", "mine-send"]);
}

#[tokio::test]
async fn what_goes_on_makes_way() {
    let stall = vec![Step::Stall(Arc::new(Notify::new()))];
    let (app, mut wire) = start(vec![stall, answers("Plums.")]).await;
    let mut left = chat(&app, &body("t", &[user("first")])).events().await;
    let start = left.next().await.unwrap().data;
    prompt(&mut wire).await;
    let mut politely = regenerate("t", &[user("first")], start["messageId"].as_str());
    politely["pes"] = json!({ "onBusy": "reject" });
    chat(&app, &politely).send().await.problem("thread_busy");
    let again = told(&app, &regenerate("t", &[user("first")], start["messageId"].as_str())).await;
    assert_eq!((again.text().as_str(), again.run == start["messageId"]), ("Plums.", false));
    let rest: Vec<Value> = left.all().await.into_iter().map(|event| event.data).collect();
    assert_eq!(rest[rest.len() - 2]["type"], "abort", "{rest:#?}");
    assert_eq!(ids(&app).await, ["mine-first", &again.run]);
}

#[tokio::test]
async fn what_is_asked_is_asked_no_more() {
    let app = App::start().await;
    told(&app, &body("t", &[user("send")])).await;
    let mut changed = user("hello");
    changed["id"] = json!("mine-send");
    assert_eq!(told(&app, &edit("t", &[changed], "mine-send")).await.text(), "Hello there.");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]));
    assert_eq!(shown(&app, "t").await.len(), 2);
}

#[tokio::test]
async fn a_message_that_is_not_known_is_named() {
    let app = App::start().await;
    told(&app, &body("t", &[user("hello")])).await;
    for sent in [
        regenerate("t", &[user("hello")], Some("nobody")),
        regenerate("t", &[], Some("nobody")),
        regenerate("new", &[user("hello")], Some("nobody")),
        edit("t", &[user("count"), user("other")], "mine-other"),
        edit("t", &[user("other")], "mine-other"),
    ] {
        let problem = chat(&app, &sent).send().await.problem("invalid");
        let pointer = if sent["messages"] == json!([]) { "/messages" } else { "/messageId" };
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{sent} {problem:#}");
    }
    app.get("/threads/new").await.problem("not_found");
    assert_eq!(shown(&app, "t").await.len(), 2);
}

/// The client sends it again under its id, as if it had been edited.
#[tokio::test]
async fn a_message_that_never_came_is_taken_where_it_stands() {
    let app = App::start().await;
    let first = told(&app, &edit("t", &[user("hello")], "mine-hello")).await;
    let answer = json!({ "id": first.run, "role": "assistant", "parts": [{ "type": "text", "text": "Hello there." }] });
    told(&app, &regenerate("t", &[user("hello"), answer, user("count")], None)).await;
    assert_eq!(ids(&app).await.len(), 4);
}

#[tokio::test]
async fn what_was_said_while_the_agent_worked_is_not_said_again() {
    let app = App::start().await;
    let mut left = chat(&app, &body("t", &[user("hang")])).events().await;
    left.next().await.unwrap();
    let mut steering = body("t", &[user("steer")]);
    steering["pes"] = json!({ "onBusy": "steer" });
    let mut beside = chat(&app, &steering).events().await;
    beside.next().await.unwrap();
    let problem = chat(&app, &edit("t", &[user("steer")], "mine-steer")).send().await.problem("invalid");
    assert!(problem["detail"].as_str().unwrap().contains("while the agent worked"), "{problem:#}");
    app.post("/threads/t/cancel", json!({})).await.expect(202);
}

/// A copy has the messages of its runs, but not the runs. This message is the oldest one that is read at first.
#[tokio::test]
async fn nor_is_it_in_a_copy_of_the_thread() {
    let app = App::start().await;
    for _ in 0..20 {
        app.post("/threads/t/process", json!({ "query": "hang", "onBusy": "steer" })).await.expect(202);
    }
    app.post("/threads/t/fork", json!({ "threadId": "copy" })).await.expect(201);
    let said = async || app.get("/threads/copy/messages").await.expect(200)["items"].as_array().unwrap().clone();
    let messages = said().await;
    assert_eq!(messages.len(), 20, "{messages:#?}");
    let again = |at: usize| {
        let id = messages[at]["messageId"].as_str().unwrap();
        let mut message = user("hang");
        message["id"] = json!(id);
        edit("copy", &[message], id)
    };
    let problem = chat(&app, &again(4)).send().await.problem("invalid");
    assert!(problem["detail"].as_str().unwrap().contains("while the agent worked"), "{problem:#}");
    let mut first = chat(&app, &again(0)).events().await;
    first.next().await.unwrap();
    assert_eq!(said().await.len(), 1);
    for thread in ["t", "copy"] {
        app.post(&format!("/threads/{thread}/cancel"), json!({})).await.expect(202);
    }
}
