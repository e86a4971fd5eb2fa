//! A request that OpenAI's libraries retry gets the result of the first one, and nothing is done twice.

use serde_json::{Value, json};

use super::{CHAT, chat, said, stands, with};
use crate::support::app::App;
use crate::support::http::{Ask, Said, soon};
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};

const COUNT: &str = "x-stainless-retry-count";

async fn again(ask: Ask) -> Said {
    ask.header(COUNT, "1").send().await
}

fn run(answer: &Said) -> &str {
    answer.header("x-pes-run").unwrap_or_else(|| panic!("{}", answer.text()))
}

async fn runs(app: &App, thread: &str) -> Vec<Value> {
    app.get(&format!("/threads/{thread}/runs")).await.expect(200)["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_the_same_run() {
    let app = App::start().await;
    for more in [json!({}), json!({ "stream": true })] {
        let body = with(said("count"), more);
        let first = chat(&app, &body).header(COUNT, "0").send().await;
        let second = again(chat(&app, &body)).await;
        assert_eq!(run(&first), run(&second));
        assert_eq!(second.text().contains("Two and two are four."), first.text().contains("Two and two are four."));
        // A new request, another request, or one for another user starts a run.
        let anew = chat(&app, &body).header(COUNT, "0").send().await;
        let other = again(chat(&app, &with(body.clone(), json!({ "temperature": 0.5 })))).await;
        let named = again(chat(&app, &body).header("x-pes-thread", "mine")).await;
        let all = [run(&first), run(&anew), run(&other), run(&named)];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{all:?}");
        assert_eq!(run(&again(chat(&app, &body)).await), run(&anew), "the newest of the same");
    }
}

/// Its thread is erased with its answer, so there is nothing to repeat.
#[tokio::test]
async fn a_front_ends_own_task_that_is_sent_again_is_another_run() {
    let app = App::start().await;
    let task = || chat(&app, &said("hello")).header("x-pes-task", "title").header("idempotency-key", "k");
    let (first, second) = (task().send().await, again(task()).await);
    assert_ne!(run(&first), run(&second));
    let text = |reply: Said| reply.expect(200)["choices"][0]["message"]["content"].clone();
    assert_eq!(text(first), text(second));
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn an_answer_that_is_sent_again_is_no_query() {
    let app = App::start().await;
    let named = |text: &str| chat(&app, &said(text)).header("x-pes-thread", "mine");
    named("ask").send().await.expect(200);
    let first = named("blue").send().await;
    let second = again(named("blue")).await;
    assert_eq!(second.expect(200)["choices"][0]["message"]["content"], "You were asked.");
    assert_eq!((run(&first), runs(&app, "mine").await.len()), (run(&second), 1));
    // With the client's own key, too.
    named("ask").send().await.expect(200);
    let keyed = || named("green").header("idempotency-key", "k");
    let (first, second) = (keyed().send().await, keyed().send().await);
    assert_eq!(second.expect(200)["choices"], first.expect(200)["choices"]);
    assert_eq!((run(&first), runs(&app, "mine").await.len()), (run(&second), 2));
}

#[tokio::test]
async fn a_response_that_is_asked_for_again_is_the_same_to_the_byte() {
    let app = App::start().await;
    let ask = |body: &Value| app.ask("POST", "/v1/responses").json(body);
    let begins = json!({ "model": "pes", "input": "ask" });
    let first = ask(&begins).send().await.expect(200);
    assert_eq!(again(ask(&begins)).await.expect(200), first);
    let answers = json!({ "model": "pes", "input": "blue", "previous_response_id": first["id"], "stream": true });
    let second = ask(&answers).send().await;
    assert_eq!(again(ask(&answers)).await.text(), second.text());
    assert!(second.text().contains("response.completed"), "{}", second.text());
    let thread = first["metadata"]["pes_thread"].as_str().unwrap();
    assert_eq!(runs(&app, thread).await.len(), 1);
    let earlier = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]);
    let with_history =
        json!({ "model": "pes", "input": [earlier[0], earlier[1], { "role": "user", "content": "hello" }] });
    let first = ask(&with_history).send().await.expect(200);
    assert_eq!(again(ask(&with_history)).await.expect(200), first);
}

/// Codex sends back what it got of a stream that broke off, and nothing new.
#[tokio::test]
async fn a_response_of_which_a_client_got_the_beginning_is_sent_again() {
    let app = App::start().await;
    let respond =
        async |more: Value| app.ask("POST", "/v1/responses").json(&with(json!({ "model": "pes" }), more)).send().await;
    let whole = respond(json!({ "input": "count" })).await.expect(200);
    assert_eq!(whole["output"][0]["type"], "reasoning");
    let input = json!([{ "role": "user", "content": "count" }, whole["output"][0]]);
    assert_eq!(respond(json!({ "input": input })).await.expect(200), whole);
    let streamed = respond(json!({ "input": input, "stream": true })).await;
    let read = app.get(&format!("/v1/responses/{}?stream=true", whole["id"].as_str().unwrap())).await;
    assert_eq!(streamed.text(), read.text());
    assert_eq!(runs(&app, whole["metadata"]["pes_thread"].as_str().unwrap()).await.len(), 1);
    assert_eq!(count_threads(&app).await, 1);
    for (last, status) in [
        (json!({ "role": "assistant", "content": "b" }), 400),
        (json!({ "type": "reasoning", "id": "rs_run_x_1_0" }), 404),
    ] {
        respond(json!({ "input": [input[0], last] })).await.expect(status);
    }
}

async fn count_threads(app: &App) -> usize {
    app.get("/threads?limit=200").await.expect(200)["items"].as_array().unwrap().len()
}

/// The query does not answer the question of its own run, and no further copy is made for it.
#[tokio::test]
async fn a_response_that_is_asked_for_again_under_its_key_answers_nothing() {
    let app = App::start().await;
    let respond = async |body: &Value| app.ask("POST", "/v1/responses").json(body).send().await.expect(200);
    let first = respond(&json!({ "model": "pes", "input": "hello" })).await;
    respond(&json!({ "model": "pes", "input": "hello", "previous_response_id": first["id"] })).await;
    for (key, more) in
        [("k1", json!({ "conversation": "mine" })), ("k2", json!({ "previous_response_id": first["id"] }))]
    {
        let body = with(json!({ "model": "pes", "input": "ask" }), more);
        let keyed = || app.ask("POST", "/v1/responses").json(&body).header("idempotency-key", key).send();
        let (first, threads) = (keyed().await, count_threads(&app).await);
        let second = keyed().await;
        assert_eq!(run(&first), run(&second), "{key}");
        assert_eq!((first.status, second.status), (200, 200), "{key}");
        assert_eq!(count_threads(&app).await, threads, "{key}");
        let thread = first.header("x-pes-thread").expect("a thread");
        assert!(app.observed(thread, "AGENT_RESUMED").await.is_empty(), "{key}");
        assert_eq!(runs(&app, thread).await[0]["status"], "suspended", "{key}");
    }
}

#[tokio::test]
async fn what_was_cancelled_meanwhile_is_begun_anew() {
    let app = App::start().await;
    let body = with(said("hang"), json!({ "stream": true }));
    let mut first = chat(&app, &body).events().await;
    soon(first.next()).await.expect("it has begun");
    let open = app.get("/threads").await.expect(200)["items"][0]["threadId"].as_str().unwrap().to_owned();
    app.ask("POST", &format!("/threads/{open}/cancel")).send().await;
    stands(&app, &open, "cancelled").await;
    let mut second = chat(&app, &body).header(COUNT, "1").events().await;
    soon(second.next()).await.expect("it has begun");
    assert_eq!(app.get("/threads").await.expect(200)["items"].as_array().unwrap().len(), 2);
}

/// The newest thread.
async fn newest(app: &App) -> String {
    let threads = app.get("/threads").await.expect(200);
    let newest = threads["items"].as_array().unwrap().iter().max_by_key(|thread| thread["createdAt"].as_i64());
    newest.unwrap()["threadId"].as_str().unwrap().to_owned()
}

/// The first connection breaks, the client retries at `second`, and the first is known to be closed.
async fn goes_on_while_somebody_listens(first: &App, second: &App) {
    let body = |n: i64| with(said("hang"), json!({ "stream": true, "seed": n }));
    let mut broken = chat(first, &body(1)).events().await;
    soon(broken.next()).await.expect("it has begun");
    let thread = newest(first).await;
    let mut attached = second.ask("POST", CHAT).json(&body(1)).header(COUNT, "1").events().await;
    soon(attached.next()).await.expect("it is told");
    drop(broken);
    // A later request whose client is gone: when it is cancelled, the first would have been.
    let mut other = chat(first, &body(2)).events().await;
    soon(other.next()).await.expect("it has begun");
    let unheard = newest(first).await;
    assert_ne!(unheard, thread);
    drop(other);
    stands(first, &unheard, "cancelled").await;
    assert_eq!(runs(first, &thread).await[0]["status"], "running");
    drop(attached);
    stands(first, &thread, "cancelled").await;
}

#[tokio::test]
async fn a_run_goes_on_while_the_second_of_two_requests_is_listened_to() {
    let app = App::with(|config| config.doors.chat_grace_ms = 1).await;
    goes_on_while_somebody_listens(&app, &app).await;
}

#[tokio::test]
async fn whether_somebody_listens_is_asked_again_where_the_store_did_not_answer() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |config| config.doors.chat_grace_ms = 50).await;
    let mut broken = chat(&app, &with(said("hang"), json!({ "stream": true }))).events().await;
    soon(broken.next()).await.expect("it has begun");
    let thread = newest(&app).await;
    store.set("lookups", Mood::FailsNext);
    drop(broken);
    soon(store.holds("lookups")).await;
    assert_eq!(runs(&app, &thread).await[0]["status"], "running");
    store.set("lookups", Mood::Well);
    stands(&app, &thread, "cancelled").await;
}

#[tokio::test]
async fn a_run_that_nobody_listens_to_ends_also_where_the_store_did_not_answer() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |config| config.doors.chat_grace_ms = 1).await;
    let mut broken = chat(&app, &with(said("hang"), json!({ "stream": true }))).events().await;
    soon(broken.next()).await.expect("it has begun");
    let thread = newest(&app).await;
    // The run's status, and its cancel, start with its row.
    store.set("find_row", Mood::FailsNext);
    drop(broken);
    soon(store.holds("find_row")).await;
    store.set("find_row", Mood::Well);
    stands(&app, &thread, "cancelled").await;
}

#[tokio::test]
async fn a_run_goes_on_while_somebody_listens_at_another_replica() {
    let database = Database::fresh().await;
    let replica = async || {
        let store = store_on(&database).await;
        App::of(store, |config| {
            config.runtime.lease_ms = 600_000;
            config.doors.chat_grace_ms = 1;
        })
        .await
    };
    let (first, second) = (replica().await, replica().await);
    goes_on_while_somebody_listens(&first, &second).await;
}
