//! Which thread a request continues when its client sends the whole conversation each time.

use pes::config::Config;
use pes::domain::settings::PolicyAction;
use serde_json::{Value, json};

use super::{CHAT, chat, turns, with};
use crate::support::app::App;
use crate::support::http::{Said, soon};
use crate::support::store::{Mood, Moody};

pub(super) const HELLO: &str = "Hello there.";
pub(super) const COUNT: &str = "Two and two are four.";

fn content(answer: &Said) -> String {
    answer.expect(200)["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
}

/// The thread, and the answer.
pub(super) async fn ask(app: &App, body: &Value) -> (String, String) {
    named(app, body, None).await
}

async fn named(app: &App, body: &Value, thread: Option<&str>) -> (String, String) {
    let answer = chat(app, body);
    let answer = if let Some(thread) = thread { answer.header("x-pes-thread", thread) } else { answer };
    let answer = answer.send().await;
    (answer.header("x-pes-thread").expect("a thread").to_owned(), content(&answer))
}

/// The messages of the thread as the next prompt contains them.
async fn conversation(app: &App, thread: &str) -> Vec<String> {
    let said = app.get(&format!("/threads/{thread}/messages?limit=200")).await.expect(200);
    said["items"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

async fn threads(app: &App) -> usize {
    app.get("/threads?limit=200").await.expect(200)["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_conversation_goes_on_and_one_that_is_asked_again_or_edited_is_a_copy() {
    let app = App::start().await;
    let (thread, answer) = ask(&app, &turns(&["hello"])).await;
    assert_eq!(answer, HELLO);
    // Clients show an answer with other formatting.
    let second = turns(&["hello", "<think>Who?</think>\nHello  there.\n", "count"]);
    assert_eq!(ask(&app, &second).await, (thread.clone(), COUNT.to_owned()));
    let (again, _) = ask(&app, &second).await;
    let (edited, _) = ask(&app, &turns(&["hello", HELLO, "calls"])).await;
    assert!(again != thread && edited != thread && again != edited);
    assert_eq!(conversation(&app, &thread).await, ["hello", HELLO, "count", COUNT]);
    assert_eq!(conversation(&app, &again).await, ["hello", HELLO, "count", COUNT]);
    assert_eq!(conversation(&app, &edited).await, ["hello", HELLO, "calls", "Two sums."]);
    let copy = app.get(&format!("/threads/{edited}")).await.expect(200);
    assert_eq!(copy["forkedFrom"]["threadId"], thread);
    // A copy continues like any other thread.
    assert_eq!(ask(&app, &turns(&["hello", HELLO, "calls", "Two sums.", "hello"])).await.0, edited);
    assert_eq!(ask(&app, &turns(&["hello"])).await.1, HELLO);
    assert_eq!(threads(&app).await, 4);
}

#[tokio::test]
async fn a_thread_begins_with_the_newest_of_the_messages_that_are_sent() {
    let app = App::with(|config| config.limits.history_messages = 2).await;
    let sent = turns(&["hello", "Good day.", "calls", "Three sums.", "count"]);
    let (chat, answer) = ask(&app, &sent).await;
    assert_eq!(answer, COUNT);
    let sent = json!({ "model": "pes", "input": sent["messages"] });
    let response = app.ask("POST", "/v1/responses").json(&sent).send().await.expect(200);
    for thread in [chat.as_str(), response["metadata"]["pes_thread"].as_str().unwrap()] {
        assert_eq!(conversation(&app, thread).await, ["calls", "Three sums.", "count", COUNT]);
    }
}

#[tokio::test]
async fn an_answer_that_was_edited_begins_a_thread_with_what_was_sent() {
    let app = App::start().await;
    let (thread, _) = ask(&app, &turns(&["hello"])).await;
    let (other, _) = ask(&app, &turns(&["hello", "Good day.", "count"])).await;
    assert_ne!(other, thread);
    assert_eq!(conversation(&app, &other).await, ["hello", "Good day.", "count", COUNT]);
    assert_eq!(conversation(&app, &thread).await, ["hello", HELLO]);
    // Imported messages count as shown.
    assert_eq!(ask(&app, &turns(&["hello", "Good day.", "count", COUNT, "hello"])).await.0, other);
}

#[tokio::test]
async fn people_behind_one_key_who_say_the_same_are_told_apart_by_their_names() {
    let app = App::start().await;
    let by = |user: &str, texts: &[&str]| with(turns(texts), json!({ "user": user }));
    let (ann, _) = ask(&app, &by("ann", &["hello"])).await;
    let (bob, _) = ask(&app, &by("bob", &["hello"])).await;
    assert_eq!(ask(&app, &by("ann", &["hello", HELLO, "count"])).await.0, ann);
    assert_eq!(ask(&app, &by("bob", &["hello", HELLO, "count"])).await.0, bob);
    let (other, _) = ask(&app, &by("eve", &["hello", HELLO, "count"])).await;
    assert!(other != ann && other != bob);
}

/// Twenty runs are looked at, the newest ones. The first of all shows another answer.
#[tokio::test]
async fn a_conversation_that_many_have_begun_since_is_begun_anew() {
    const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning", thread = "ann" }
json = { answer = "You are the first.", todoList = [] }

[[reply]]
when = { phase = "planning", thread = "bob" }
json = { answer = "You are the first.", todoList = [] }

[[reply]]
when = { phase = "planning" }
json = { answer = "You are not.", todoList = [] }
"#;
    let app = App::scripted(SCRIPT, |_| {}).await;
    let by = |user: &str, texts: &[&str]| with(turns(texts), json!({ "user": user }));
    for (user, later, is_found) in [("ann", 19, true), ("bob", 20, false)] {
        named(&app, &by(user, &["hello"]), Some(user)).await;
        for _ in 0..later {
            assert_eq!(ask(&app, &by(user, &["hello"])).await.1, "You are not.");
        }
        let (thread, _) = ask(&app, &by(user, &["hello", "You are the first.", "and now?"])).await;
        assert_eq!(thread == user, is_found, "{user}");
    }
}

#[tokio::test]
async fn another_tenants_conversation_is_not_found() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let (thread, _) = ask(&app, &turns(&["hello"])).await;
    let app = app.key("key-b-0123456789abcdef0123456789");
    let (other, _) = ask(&app, &turns(&["hello", HELLO, "count"])).await;
    assert_ne!(other, thread);
    assert_eq!(threads(&app).await, 1);
}

#[tokio::test]
async fn two_who_go_on_at_once_do_not_mix() {
    let app = App::start().await;
    let (thread, _) = ask(&app, &turns(&["hello"])).await;
    let next = turns(&["hello", HELLO, "count"]);
    let all = futures_util::future::join_all((0..4).map(|_| ask(&app, &next))).await;
    let mut ids: Vec<&String> = all.iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{all:?}");
    assert!(ids.contains(&&thread));
    for id in ids {
        assert_eq!(conversation(&app, id).await, ["hello", HELLO, "count", COUNT]);
    }
}

#[tokio::test]
async fn a_question_is_answered_by_text_and_an_answer_can_be_given_again() {
    let app = App::start().await;
    let (thread, question) = ask(&app, &turns(&["ask"])).await;
    assert!(question.starts_with("Which word?"), "{question}");
    let answered = turns(&["ask", &question, "blue"]);
    assert_eq!(ask(&app, &answered).await, (thread.clone(), "You were asked.".to_owned()));
    let next = ["ask", &question, "blue", "You were asked.", "hello"];
    assert_eq!(ask(&app, &turns(&next)).await.0, thread);
    assert_eq!(conversation(&app, &thread).await[..4], ["ask", "blue", "You were asked.", "hello"]);
    // A copy has the questions asked before it was made.
    let (later, answer) = ask(&app, &turns(&next)).await;
    assert_ne!(later, thread);
    let more = ["ask", &question, "blue", "You were asked.", "hello", &answer, "count"];
    assert_eq!(ask(&app, &turns(&more)).await.0, later);
    // Another answer to the same question is asked of a copy, as is the question.
    let (copy, _) = ask(&app, &turns(&["ask", &question, "hello"])).await;
    assert_ne!(copy, thread);
    assert_eq!(conversation(&app, &copy).await[..2], ["ask", "hello"]);
    assert_eq!(conversation(&app, &thread).await.len(), 5);
}

pub(super) fn gated(config: &mut Config) {
    config.agent.tool_policy.insert("calc*".to_owned(), PolicyAction::Ask);
}

#[tokio::test]
async fn a_question_that_is_put_again_is_still_the_same_conversation() {
    let app = App::with(gated).await;
    let (thread, question) = ask(&app, &turns(&["count"])).await;
    let unclear = turns(&["count", &question, "yes, but only one"]);
    assert_eq!(ask(&app, &unclear).await, (thread.clone(), question.clone()));
    let clear = turns(&["count", &question, "yes, but only one", &question, "yes"]);
    assert_eq!(ask(&app, &clear).await, (thread.clone(), COUNT.to_owned()));
    let next = turns(&["count", &question, "yes, but only one", &question, "yes", COUNT, "hello"]);
    assert_eq!(ask(&app, &next).await.0, thread);
}

#[tokio::test]
async fn a_question_that_was_answered_elsewhere_is_no_new_conversation() {
    let app = App::start().await;
    let (thread, question) = ask(&app, &turns(&["send"])).await;
    assert_eq!(ask(&app, &turns(&["send", &question, "yes"])).await, (thread.clone(), question.clone()));
    let open = app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"].clone();
    let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30");
    resume.json(&json!({ "suspensionId": open, "approved": true })).send().await.expect(200);
    let next = turns(&["send", &question, "yes", &question, "hello"]);
    let (same, answer) = ask(&app, &next).await;
    assert_eq!(same, thread);
    assert_eq!(conversation(&app, &thread).await, ["send", "The mail is dealt with.", "hello", &answer]);
}

/// A mail that needs an approval, and endless work after it.
const LONG: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "mail", description = "Send", stepType = "tool", requiredTools = ["demo_send_email"] },
    { id = "long", description = "Think", stepType = "reasoning", dependencies = ["mail"] },
] }

[[reply]]
when = { item = "mail", phase = "execution", iteration = 1 }
calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "s", body = "b" } }]

[[reply]]
when = { item = "mail", phase = "execution" }
text = "Sent."

[[reply]]
when = { item = "long", phase = "execution" }
text = "Hm."
hang = true
"#;

/// A call that a person has approved is not cancelled by the next message.
#[tokio::test]
async fn what_was_approved_elsewhere_goes_on_while_its_client_says_more() {
    let app = App::scripted(LONG, |_| {}).await;
    let (thread, question) = ask(&app, &turns(&["go"])).await;
    let open = app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"].clone();
    app.post(&format!("/threads/{thread}/resume"), json!({ "suspensionId": open, "approved": true })).await.expect(202);
    let more = with(turns(&["go", &question, "and then?"]), json!({ "stream": true }));
    let mut waiting = chat(&app, &more).events().await;
    waiting.next().await.expect("it was taken");
    let runs = app.get(&format!("/threads/{thread}/runs")).await.expect(200);
    let mut statuses: Vec<&str> =
        runs["items"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["queued", "running"]);
}

#[tokio::test]
async fn on_a_named_thread_a_turn_that_is_asked_again_or_edited_takes_the_place_of_the_old_one() {
    let app = App::start().await;
    let on = async |texts: &[&str]| named(&app, &turns(texts), Some("mine")).await.1;
    on(&["hello"]).await;
    on(&["hello", HELLO, "count"]).await;
    assert_eq!(on(&["hello", HELLO, "count"]).await, COUNT);
    assert_eq!(conversation(&app, "mine").await, ["hello", HELLO, "count", COUNT]);
    on(&["hello", HELLO, "calls"]).await;
    assert_eq!(conversation(&app, "mine").await, ["hello", HELLO, "calls", "Two sums."]);
    // A withdrawn call is not requested from the client.
    assert_eq!(ask(&app, &turns(&["hello", HELLO, "calls", "Two sums.", "hello"])).await.0, "mine");
    on(&["hello", HELLO, "calls"]).await;
    // A message that matches nothing is new; the client may have left out old ones.
    on(&["hello again"]).await;
    assert_eq!(conversation(&app, "mine").await.len(), 6);
    on(&["hello"]).await;
    assert_eq!(conversation(&app, "mine").await, ["hello", HELLO]);
    assert_eq!(threads(&app).await, 1);
}

#[tokio::test]
async fn a_thread_that_is_named_later_begins_as_a_copy_of_what_was_said() {
    let app = App::start().await;
    let (first, _) = ask(&app, &turns(&["hello"])).await;
    let second = turns(&["hello", HELLO, "count"]);
    assert_eq!(named(&app, &second, Some("conv-1")).await.0, "conv-1");
    assert_eq!(app.get("/threads/conv-1").await.expect(200)["forkedFrom"]["threadId"], first);
    assert_eq!(conversation(&app, "conv-1").await, ["hello", HELLO, "count", COUNT]);
    assert_eq!(conversation(&app, &first).await, ["hello", HELLO]);
    // A conversation that matches no thread is imported.
    named(&app, &turns(&["Who are you?", "Ana.", "hello"]), Some("conv-2")).await;
    assert_eq!(conversation(&app, "conv-2").await, ["Who are you?", "Ana.", "hello", HELLO]);
}

/// It does not exist yet when the request looks for it.
#[tokio::test]
async fn a_named_thread_that_begins_meanwhile_is_continued() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    store.set("lookups", Mood::Hangs);
    let request = chat(&app, &turns(&["hello", HELLO, "count"])).header("x-pes-thread", "mine");
    let request = tokio::spawn(request.send());
    soon(store.holds("lookups")).await;
    app.finish("mine", "hello").await;
    store.set("lookups", Mood::Well);
    assert_eq!(content(&request.await.unwrap()), COUNT);
    assert_eq!(conversation(&app, "mine").await, ["hello", HELLO, "count", COUNT]);
}

/// A copy of a copy may have the id of its original.
#[tokio::test]
async fn a_thread_that_is_made_anew_under_an_old_id_is_not_what_its_copies_were_made_of() {
    let app = App::start().await;
    named(&app, &turns(&["hello"]), Some("b")).await;
    app.post("/threads/b/fork", json!({ "threadId": "a" })).await.expect(201);
    named(&app, &turns(&["hello", HELLO, "count"]), Some("a")).await;
    assert_eq!(app.ask("DELETE", "/threads/b").send().await.status, 204);
    app.post("/threads/a/fork", json!({ "threadId": "b" })).await.expect(201);
    let next = turns(&["hello", HELLO, "count", COUNT, "hello"]);
    assert_eq!(soon(ask(&app, &next)).await.0, "a");
}

#[tokio::test]
async fn a_message_that_was_edited_approves_nothing() {
    let app = App::with(gated).await;
    let on = async |texts: &[&str]| named(&app, &turns(texts), Some("mine")).await.1;
    on(&["hello"]).await;
    let question = on(&["hello", HELLO, "count"]).await;
    // Its client shows the answer to `hello` as the last: it has not seen the question.
    assert_eq!(on(&["hello", HELLO, "yes"]).await, question);
    let log = app.observed("mine", "AGENT_RESUMED").await;
    assert!(log.is_empty(), "{log:#?}");
    assert_eq!(on(&["hello", HELLO, "count", &question, "yes"]).await, COUNT);
}

/// People who all send the same few words, ask again, edit, and start anew: an answer is always given to exactly the
/// conversation that was sent.
#[tokio::test]
async fn the_model_is_shown_what_the_client_sent() {
    let app = App::start().await;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).expect("it is small")
    };
    let words = ["hello", "count", "calls"];
    let mut clients: Vec<Vec<String>> = vec![Vec::new(); 4];
    for _ in 0..60 {
        let who = random(clients.len());
        let said = &mut clients[who];
        match random(6) {
            0 => said.clear(),
            // Another answer to the last message, or an earlier message edited.
            1 => drop(said.pop()),
            2 => said.truncate(random(said.len() / 2 + 1) * 2),
            3 if said.len() > 1 => said[1] = "What nobody said.".to_owned(),
            _ => {}
        }
        if said.len().is_multiple_of(2) {
            said.push(words[random(words.len())].to_owned());
        }
        let body = turns(&said.iter().map(String::as_str).collect::<Vec<_>>());
        let body = if who < 2 { with(body, json!({ "user": format!("user-{who}") })) } else { body };
        let (thread, answer) = ask(&app, &body).await;
        said.push(answer);
        assert_eq!(conversation(&app, &thread).await, *said);
        let runs = app.get(&format!("/threads/{thread}/runs?limit=200")).await.expect(200);
        let users = runs["items"].as_array().unwrap().iter().map(|run| run["userId"].clone());
        let own = json!(if who < 2 { Some(format!("user-{who}")) } else { None });
        assert!(users.into_iter().all(|user| user == own), "{runs:#}");
    }
}

#[tokio::test]
async fn a_conversation_that_was_sent_before_is_found_with_a_key_too() {
    let app = App::start().await;
    ask(&app, &turns(&["hello"])).await;
    let again = || app.ask("POST", CHAT).json(&turns(&["hello", HELLO, "count"])).header("idempotency-key", "k").send();
    let (one, other) = (again().await, again().await);
    assert_eq!(one.header("x-pes-run"), other.header("x-pes-run"));
    assert_eq!(content(&one), content(&other));
    assert_eq!(threads(&app).await, 1, "no copy is made for an answer that is there");
}

#[tokio::test]
async fn responses_without_ids_go_on_where_they_were() {
    let app = App::start().await;
    let respond = async |items: Value| {
        let body = json!({ "model": "pes", "input": items });
        let response = app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
        response["metadata"]["pes_thread"].as_str().unwrap().to_owned()
    };
    let item = |role: &str, text: &str| json!({ "role": role, "content": text });
    let thread = respond(json!("hello")).await;
    let second = json!([item("user", "hello"), item("assistant", HELLO), item("user", "count")]);
    assert_eq!(respond(second.clone()).await, thread);
    let copy = respond(second).await;
    assert_ne!(copy, thread);
    assert_eq!(conversation(&app, &copy).await, ["hello", HELLO, "count", COUNT]);
    let edited = respond(json!([item("user", "hello"), item("assistant", "No."), item("user", "count")])).await;
    assert_eq!(conversation(&app, &edited).await, ["hello", "No.", "count", COUNT]);
    assert_eq!(conversation(&app, &thread).await, ["hello", HELLO, "count", COUNT]);
}
