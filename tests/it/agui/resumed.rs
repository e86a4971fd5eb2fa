//! A stream that was cut is resumed from the id of any of its events, and no event is missing.

use serde_json::{Value, json};

use super::{all, ask, input, text, user, with};
use crate::support::app::App;
use crate::support::http::{Ask, Event, soon};

async fn heard(ask: Ask) -> Vec<Event> {
    ask.events().await.all().await
}

fn connect(app: &App, run: &str, id: Option<&str>) -> Ask {
    let ask = app.ask("POST", "/agui/connect").json(&input("t", run, &[]));
    match id {
        Some(id) => ask.header("last-event-id", id),
        None => ask,
    }
}

/// The client's view: its text, and all else in order, with the number of messages in each snapshot.
fn made(events: &[Value]) -> (String, Vec<Value>) {
    let is_text = |event: &Value| event["type"].as_str().unwrap().starts_with("TEXT_MESSAGE_");
    let bare = |event: &Value| match event["type"].as_str() {
        Some("MESSAGES_SNAPSHOT") => json!("snapshot"),
        _ => event.clone(),
    };
    (text(events), events.iter().filter(|event| !is_text(event)).map(bare).collect())
}

fn data(events: &[Event]) -> Vec<Value> {
    events.iter().map(|event| event.data.clone()).collect()
}

/// Cuts the stream after each of its events.
async fn is_whole_behind_every_cut(app: &App, run: &str, whole: &[Event]) {
    for (at, event) in whole.iter().enumerate() {
        let id = event.mark.as_deref().expect("every event has an id");
        let rest = heard(connect(app, run, Some(id))).await;
        let joined: Vec<Value> = data(&whole[..=at]).into_iter().chain(data(&rest)).collect();
        assert_eq!(made(&joined), made(&data(whole)), "behind {id}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_behind_any_of_its_events() {
    let app = App::start().await;
    let whole = heard(ask(&app, &input("t", "r1", &[user("count")]))).await;
    assert_eq!(text(&data(&whole)), "Two and two are four.");
    is_whole_behind_every_cut(&app, "r1", &whole).await;
    // Whatever is sent later.
    heard(ask(&app, &input("t", "r2", &[user("hello")]))).await;
    is_whole_behind_every_cut(&app, "r1", &whole).await;
}

#[tokio::test]
async fn a_question_ends_its_stream_whatever_was_answered_since() {
    let app = App::start().await;
    let first = heard(ask(&app, &input("t", "r1", &[user("send")]))).await;
    is_whole_behind_every_cut(&app, "r1", &first).await;
    let interrupt = first.last().unwrap().data["outcome"]["interrupts"][0]["id"].clone();
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": { "approved": true } }]);
    let second = heard(ask(&app, &with(input("t", "r2", &[]), "resume", resume))).await;
    assert_eq!(text(&data(&second)), "The mail is dealt with.");
    is_whole_behind_every_cut(&app, "r1", &first).await;
    is_whole_behind_every_cut(&app, "r2", &second).await;
}

#[tokio::test]
async fn what_goes_on_is_told_behind_the_cut() {
    let app = App::start().await;
    let mut left = ask(&app, &input("t", "r1", &[user("hang")])).events().await;
    let first = left.next().await.unwrap();
    drop(left);
    let mut connected = connect(&app, "r2", None).events().await;
    let mut cut = vec![connected.next().await.unwrap(), connected.next().await.unwrap()];
    assert_eq!(cut[1].data["type"], "MESSAGES_SNAPSHOT");
    drop(connected);
    let again = connect(&app, "r2", cut[1].mark.as_deref()).events().await;
    let behind_first = connect(&app, "r1", first.mark.as_deref()).events().await;
    app.post("/threads/t/cancel", json!({})).await.expect(202);
    cut.extend(again.all().await);
    let types: Vec<Value> = cut.iter().map(|event| event.data["type"].clone()).collect();
    assert_eq!(types[..3], ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]);
    for (run, last) in [("r2", cut.pop()), ("r1", behind_first.all().await.pop())] {
        let last = last.unwrap().data;
        assert_eq!((&last["runId"], &last["outcome"]["type"]), (&json!(run), &json!("cancelled")));
    }
}

#[tokio::test]
async fn an_interrupt_brings_the_whole_conversation_under_the_clients_own_ids() {
    let app = App::start().await;
    let first = data(&heard(ask(&app, &input("t", "r1", &[user("hello")]))).await);
    let asked = data(&heard(ask(&app, &input("t", "r2", &[user("send")]))).await);
    let (answer, call) = (all(&first, "TEXT_MESSAGE_START")[0], all(&asked, "TOOL_CALL_START")[0]);
    let messages = |events: &[Value]| all(events, "MESSAGES_SNAPSHOT")[0]["messages"].clone();
    let ids = |messages: &Value| -> Vec<Value> {
        messages.as_array().unwrap().iter().map(|message| message["id"].clone()).collect()
    };
    let so_far =
        [&json!("mine-hello"), &answer["messageId"], &json!("mine-send"), &call["toolCallId"]].map(Value::clone);
    assert_eq!(ids(&messages(&asked)), so_far);
    let connected = data(&heard(connect(&app, "r3", None)).await);
    assert_eq!(messages(&connected), messages(&asked));
    let interrupt = &asked.last().unwrap()["outcome"]["interrupts"][0]["id"];
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": { "approved": true } }]);
    let done = data(&heard(ask(&app, &with(input("t", "r4", &[]), "resume", resume))).await);
    let (result, answer) = (all(&done, "TOOL_CALL_RESULT")[0], all(&done, "TEXT_MESSAGE_START")[0]);
    let connected = data(&heard(connect(&app, "r5", None)).await);
    let all_of_it = [&so_far[..], &[result["messageId"].clone(), answer["messageId"].clone()]].concat();
    assert_eq!(ids(&messages(&connected)), all_of_it);
}

#[tokio::test]
async fn an_id_of_others_leads_nowhere() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let whole = heard(ask(&app, &input("t", "r1", &[user("hello")]))).await;
    let id = whole[1].mark.clone().unwrap();
    for wrong in ["7", "x", "run_1:r:0:0"] {
        connect(&app, "r1", Some(wrong)).send().await.problem("malformed");
    }
    let elsewhere = app.ask("POST", "/agui/connect").json(&input("u", "r1", &[])).header("last-event-id", &id);
    elsewhere.send().await.problem("not_found");
    let app = app.key("key-b-0123456789abcdef0123456789");
    connect(&app, "r1", Some(&id)).send().await.problem("not_found");
}

#[tokio::test]
async fn a_run_that_asks_is_told_and_not_the_one_that_waits_behind_it() {
    let app = App::start().await;
    app.suspend("t", "send").await;
    app.post("/threads/t/process", json!({ "query": "hello", "onBusy": "enqueue" })).await.expect(202);
    let told = soon(heard(connect(&app, "r", None))).await;
    let outcome = &told.last().unwrap().data["outcome"];
    assert_eq!(outcome["interrupts"].as_array().map(Vec::len), Some(1), "{outcome:#}");
}
