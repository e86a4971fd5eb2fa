//! What a user says beside answers.

use serde_json::{Value, json};

use super::{ask, input, interrupts, text, told, user, with};
use crate::openai::beside::{LOCATES, seen, users};
use crate::support::app::App;
use crate::support::demo::SCRIPT;

/// The messages of the thread, as a client has them that connects.
async fn shown(app: &App) -> Vec<Value> {
    let connected = told(app.ask("POST", "/agui/connect").json(&input("t", "c", &[]))).await;
    connected[1]["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_a_user_says_after_the_results_of_the_page_is_told_to_the_model() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let tools = json!([{ "name": "get_location", "description": "Where.", "parameters": { "type": "object" } }]);
    let asked = told(ask(&app, &with(input("t", "r1", &[user("where")]), "tools", tools.clone()))).await;
    let call = asked.last().unwrap()["outcome"]["pendingToolCallIds"][0].clone();
    let result = json!({ "id": "m", "role": "tool", "toolCallId": call, "content": "Rome" });
    let calls = json!([{ "id": call, "type": "function", "function": { "name": "get_location", "arguments": "{}" } }]);
    let message = json!({ "id": call, "role": "assistant", "toolCalls": calls });
    let turn = [user("where"), message, result, user("in French")];
    let sent = with(input("t", "r2", &turn), "tools", tools);
    let done = told(ask(&app, &sent)).await;
    assert_eq!(text(&done), "You are in Rome.", "{done:#?}");
    assert_eq!(users(&app, "t").await, ["where", "in French"]);
    let prompts = seen(&app, "t", "in French").await;
    assert_eq!(prompts.iter().map(|(_, is_seen)| *is_seen).collect::<Vec<_>>(), [false, false, true, true, true]);
    let ids: Vec<Value> = shown(&app).await.into_iter().map(|mut message| message["id"].take()).collect();
    assert!(ids.contains(&json!("mine-in French")), "{ids:?}");
    // The same request again is the same answers.
    assert_eq!(text(&told(ask(&app, &sent)).await), text(&done));
    assert_eq!(users(&app, "t").await.len(), 2);
}

const OTHERWISE: &str = r#"
[[reply]]
when = { query = "send", phase = "refinement" }
json = { title = "S", intent = "S", plan = "S.", todoList = [
    { id = "mail", description = "Send the mail", stepType = "tool", requiredTools = ["demo_send_email"] },
] }
"#;

/// As assistant-ui does when its user writes something else instead of an answer.
#[tokio::test]
async fn what_a_user_says_instead_of_an_answer_is_told_to_the_model() {
    let app = App::scripted(&[SCRIPT, OTHERWISE].concat(), |_| {}).await;
    let asked = told(ask(&app, &input("t", "r1", &[user("send")]))).await;
    let given_up = json!([{ "interruptId": interrupts(&asked)[0]["id"], "status": "cancelled" }]);
    let done = told(ask(&app, &with(input("t", "r2", &[user("send"), user("wait")]), "resume", given_up))).await;
    assert_eq!(text(&done), "The mail is dealt with.", "{done:#?}");
    assert_eq!(users(&app, "t").await, ["send", "wait"]);
    assert!(seen(&app, "t", "send\\n\\nwait").await.last().unwrap().1);
}

/// A client sends all its messages with an answer. Before the first call or text of a run the newest one is its query.
#[tokio::test]
async fn a_message_that_the_thread_has_is_not_said_again_with_an_answer() {
    let app = App::start().await;
    let reviewed = json!({ "pes": { "executionConfig": { "planReview": "always" } } });
    let asked = told(ask(&app, &with(input("t", "r1", &[user("count")]), "forwardedProps", reviewed))).await;
    let approved =
        json!([{ "interruptId": interrupts(&asked)[0]["id"], "status": "resolved", "payload": { "approved": true } }]);
    let messages = shown(&app).await;
    assert_eq!(messages.last().unwrap()["id"], "mine-count", "{messages:#?}");
    let done = told(ask(&app, &with(input("t", "r2", &messages), "resume", approved))).await;
    assert_eq!(text(&done), "Two and two are four.", "{done:#?}");
    assert_eq!(users(&app, "t").await, ["count"]);
    let phases: Vec<String> = app.model_calls("t").await.into_iter().map(|(phase, _)| phase).collect();
    assert_eq!(phases, ["planning", "execution", "execution", "synthesis"], "the plan is not made anew");
}

#[tokio::test]
async fn nor_is_the_first_message_of_a_long_thread() {
    let app = App::start().await;
    let hello = |at: u8| with(user("hello"), "id", json!(format!("m{at}")));
    for at in 0..9 {
        told(ask(&app, &input("t", &format!("r{at}"), &[hello(at)]))).await;
    }
    let asked = told(ask(&app, &input("t", "asks", &[user("send")]))).await;
    let approved =
        json!([{ "interruptId": interrupts(&asked)[0]["id"], "status": "resolved", "payload": { "approved": true } }]);
    told(ask(&app, &with(input("t", "answers", &[hello(0)]), "resume", approved))).await;
    assert_eq!(users(&app, "t").await, [vec!["hello"; 9], vec!["send"]].concat());
}

/// A pause cannot be rejected, so nothing is answered and nothing would be done with the message.
#[tokio::test]
async fn what_is_said_beside_no_answer_is_refused() {
    let app = App::start().await;
    let mut left = ask(&app, &input("t", "r1", &[user("hang")])).events().await;
    left.next().await.unwrap();
    app.post("/threads/t/pause", json!({})).await.expect(202);
    let open = app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"].clone();
    let given_up = json!([{ "interruptId": open, "status": "cancelled" }]);
    let refused = told(ask(&app, &with(input("t", "r2", &[user("hello")]), "resume", given_up))).await;
    assert_eq!(refused[1]["code"], "thread_busy", "{refused:#?}");
    assert_eq!(users(&app, "t").await, ["hang"]);
}
