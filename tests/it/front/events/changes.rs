//! `GET /events`: changes of a tenant's threads and questions.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};
use crate::support::ws::Socket;

fn is_caught_up(frame: &Value) -> bool {
    frame["event"] == "caught_up"
}

/// The frame about this thread, or about a question of it.
async fn told(socket: &mut Socket, event: &str, thread: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let is_last =
        |frame: &Value| frame["event"] == event && frame["data"]["threadId"] == thread && is_it(&frame["data"]);
    socket.until(is_last).await.pop().unwrap()["data"].clone()
}

#[tokio::test]
async fn threads_and_questions_are_told_as_lists_show_them() {
    let app = App::start().await;
    let before = app.suspend("t0", "send").await;
    let mut socket = app.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let fresh = told(&mut socket, "thread", "t1", |_| true).await;
    assert_eq!(fresh, app.get("/threads/t1").await.expect(200));

    app.suspend("t1", "send").await;
    let asked = told(&mut socket, "suspension", "t1", |_| true).await;
    assert_eq!(asked, app.get("/suspensions?threadId=t1").await.expect(200)["items"][0]);
    let body = json!({ "suspensionId": asked["suspensionId"], "approved": false, "reason": "no" });
    app.post("/threads/t1/resume", body).await.expect(202);
    // Which comes first depends on how many changes are sent together.
    let (mut over, mut ended) = (None, None);
    while over.is_none() || ended.is_none() {
        let frame = socket.next().await.unwrap();
        let data = frame["data"].clone();
        match frame["event"].as_str() {
            Some("suspension") if data["status"] != "pending" => over = Some(data),
            Some("thread") if data["lastRun"]["status"] == "completed" => ended = Some(data),
            _ => {}
        }
    }
    let (over, ended) = (over.unwrap(), ended.unwrap());
    assert_eq!((&over["status"], &over["resolution"]["decision"]), (&json!("resolved"), &json!("rejected")));
    assert_eq!(ended["openQuestions"], 0);

    // A question that was open before the first subscriber is reported when it closes.
    app.post("/threads/t0/cancel", json!({})).await.expect(202);
    let over = told(&mut socket, "suspension", "t0", |_| true).await;
    assert_eq!((&over["suspensionId"], &over["status"]), (&before["suspensionId"], &json!("cancelled")));

    app.ask("PATCH", "/threads/t1").json(&json!({ "title": "mine" })).send().await.expect(200);
    told(&mut socket, "thread", "t1", |thread| thread["title"] == "mine").await;
    app.ask("DELETE", "/threads/t1").send().await.expect(204);
    told(&mut socket, "thread_deleted", "t1", |_| true).await;

    socket.say(json!({ "op": "ping", "id": 1 })).await;
    socket.until(|frame| frame["event"] == "pong").await;
    socket.say(json!({ "op": "process", "id": "2", "query": "hello" })).await;
    assert_eq!(socket.answer("2").await["data"]["problem"]["code"], "invalid");
}

#[tokio::test]
async fn nobody_is_told_of_another_tenants_threads() {
    let app = App::with_keys().await.key("key-b-0123456789abcdef0123456789");
    let mut socket = app.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    let app = app.key("key-a-0123456789abcdef0123456789");
    app.suspend("theirs", "send").await;
    let app = app.key("key-b-0123456789abcdef0123456789");
    app.finish("mine", "hello").await;
    let frames = socket.until(|frame| frame["data"]["lastRun"]["status"] == "completed").await;
    assert!(frames.iter().all(|frame| frame["data"]["threadId"] == "mine"), "{frames:#?}");
}

#[tokio::test]
async fn server_sent_events_say_the_same() {
    let app = App::start().await;
    app.get("/events").await.problem("malformed");
    app.get("/events?after=1").await.problem("invalid");
    let mut events = app.ask("GET", "/events").header("accept", "text/event-stream").events().await;
    let first = events.next().await.unwrap();
    assert_eq!((first.event.as_str(), first.data), ("caught_up", json!({ "seq": 0 })));
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let told = events.next().await.unwrap();
    assert_eq!((told.event.as_str(), told.id, &told.data["threadId"]), ("thread", None, &json!("t1")));
}

#[tokio::test]
async fn what_another_process_changes_is_told_too() {
    let database = Database::fresh().await;
    let open = async || store_on(&database).await;
    let (here, there) = (App::of(open().await, |_| {}).await, App::of(open().await, |_| {}).await);
    let mut socket = here.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    there.suspend("t1", "send").await;
    told(&mut socket, "suspension", "t1", |one| one["status"] == "pending").await;
    there.post("/threads/t1/cancel", json!({})).await.expect(202);
    told(&mut socket, "suspension", "t1", |one| one["status"] == "cancelled").await;
    there.ask("DELETE", "/threads/t1").send().await.expect(204);
    told(&mut socket, "thread_deleted", "t1", |_| true).await;
}

/// Whatever of the two the subscriber's process reads first: which threads were active, or which questions are open.
#[tokio::test]
async fn the_end_of_a_question_that_another_process_asked_while_the_feed_began_is_told() {
    for call in ["recent_threads", "suspensions"] {
        let database = Database::fresh().await;
        let open = async || store_on(&database).await;
        let store = Moody::over(open().await);
        let (here, there) = (App::of(store.clone(), |_| {}).await, App::of(open().await, |_| {}).await);
        store.set(call, Mood::Hangs);
        let asking = async {
            soon(store.holds(call)).await;
            there.suspend("t1", "send").await;
            store.set(call, Mood::Well);
        };
        let (mut socket, ()) = tokio::join!(here.socket("/events"), asking);
        assert!(is_caught_up(&socket.next().await.unwrap()), "{call}");
        there.post("/threads/t1/cancel", json!({})).await.expect(202);
        told(&mut socket, "suspension", "t1", |one| one["status"] == "cancelled").await;
    }
}

/// The list showed it meanwhile, so a subscriber may have it.
#[tokio::test]
async fn the_end_of_a_question_that_was_answered_before_the_feed_read_it_is_told_once() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    is_told_of_an_early_answer(&store, &app, &app).await;

    let database = Database::fresh().await;
    let store = Moody::over(store_on(&database).await);
    let (here, there) = (App::of(store.clone(), |_| {}).await, App::of(store_on(&database).await, |_| {}).await);
    is_told_of_an_early_answer(&store, &here, &there).await;
}

/// `store` is that of the subscriber's process, which is `here`.
async fn is_told_of_an_early_answer(store: &Moody, here: &App, there: &App) {
    let mut socket = here.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    store.set("outlines", Mood::Hangs);
    let asked = there.suspend("t1", "send").await;
    soon(store.holds("outlines")).await;
    let open = here.get("/suspensions?threadId=t1").await.expect(200)["items"].clone();
    assert_eq!(open[0]["suspensionId"], asked["suspensionId"], "{open:#}");
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": false, "reason": "no" });
    let answer = there.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer);
    answer.send().await.expect(200);
    store.set("outlines", Mood::Well);
    let over = told(&mut socket, "suspension", "t1", |_| true).await;
    assert_eq!((&over["suspensionId"], &over["status"]), (&asked["suspensionId"], &json!("resolved")));

    here.ask("PATCH", "/threads/t1").json(&json!({ "title": "mine" })).send().await.expect(200);
    let frames = socket.until(|frame| frame["data"]["title"] == "mine").await;
    assert!(frames.iter().all(|frame| frame["event"] == "thread"), "{frames:#?}");
}

/// Also for a thread that was not active recently, and whose status does not change.
#[tokio::test]
async fn an_answer_that_another_process_takes_is_told_of_a_thread_that_has_waited_long() {
    let database = Database::fresh().await;
    let open = async || store_on(&database).await;
    let (here, there) = (App::of(open().await, |_| {}).await, App::of(open().await, |_| {}).await);
    let asked = there.suspend("t1", "two mails").await;
    let sql = "UPDATE threads SET updated_at = updated_at - 3600000";
    sqlx::query(sql).execute(&mut database.connect().await).await.unwrap();
    let mut socket = here.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": false });
    there.post("/threads/t1/resume", answer).await.expect(202);
    told(&mut socket, "suspension", "t1", |one| one["status"] == "resolved").await;
    assert_eq!(there.get("/threads/t1").await.expect(200)["status"], "suspended");
}

#[tokio::test]
async fn a_change_is_read_once_for_everybody_who_listens() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = app.socket("/events").await;
        assert!(is_caught_up(&socket.next().await.unwrap()));
        sockets.push(socket);
    }
    store.set("threads_by_pk", Mood::HangsNext);
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    for socket in &mut sockets {
        told(socket, "thread", "t1", |_| true).await;
    }
    // Without subscribers nothing is read, and a later subscriber gets changes again.
    drop(sockets);
    store.set("threads_by_pk", Mood::Well);
    let mut socket = app.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    app.post("/threads", json!({ "threadId": "t2" })).await.expect(201);
    told(&mut socket, "thread", "t2", |_| true).await;
}

#[tokio::test]
async fn what_came_while_changes_could_not_be_read_is_told_when_it_is_over() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let mut socket = app.socket("/events").await;
    assert!(is_caught_up(&socket.next().await.unwrap()));
    store.set("threads_by_pk", Mood::Hangs);
    app.suspend("t1", "send").await;
    store.holds("threads_by_pk").await;
    store.set("threads_by_pk", Mood::FailsOnce);
    let frames = socket.until(|frame| frame["event"] == "gap").await;
    assert_eq!(frames.len(), 1, "{frames:#?}");
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    told(&mut socket, "suspension", "t1", |one| one["status"] == "cancelled").await;
}
