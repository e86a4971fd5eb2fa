//! `POST /threads/{thread}/resume`

use pes::config::Config;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::postgres::Database;
use crate::support::store::store_on;

async fn resume(app: &App, body: Value) -> crate::support::http::Said {
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=20").json(&body).send().await
}

fn id(suspension: &Value) -> &str {
    suspension["suspensionId"].as_str().unwrap()
}

/// The only call that ran: the tool's result for the arguments it received, and their digest.
async fn ran(app: &App) -> (Value, Value) {
    let page = app.observed("t1", "TOOL_EXECUTION").await;
    let [ran] = page.as_slice() else { panic!("one call: {page:#?}") };
    assert_eq!(ran["content"]["status"], "success", "{ran:#}");
    (ran["content"]["output"].clone(), ran["content"]["executed"]["digest"].clone())
}

#[tokio::test]
async fn what_was_approved_runs() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    let answer = resume(&app, json!({ "suspensionId": id(&suspension), "approved": true })).await.expect(200);
    assert_eq!(answer["metadata"]["status"], "success", "{answer:#}");
    let (output, digest) = ran(&app).await;
    assert_eq!(output, json!({ "sent": true, "to": "a@example.com", "subject": "S" }));
    assert_eq!(digest, suspension["digest"], "the digest that was shown");
    let problem = resume(&app, json!({ "suspensionId": id(&suspension), "approved": false })).await;
    let problem = problem.problem("already_resolved");
    assert_eq!(problem["resolution"]["decision"], "approved", "{problem:#}");
    assert_eq!(problem["resolution"]["decidedBy"], "local");
}

#[tokio::test]
async fn what_was_edited_runs_as_edited() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    let edited = json!({ "to": "b@example.com", "subject": "Edited", "body": "B" });
    let body = json!({ "suspensionId": id(&suspension), "approved": true, "modifiedArgs": edited });
    resume(&app, body).await.expect(200);
    let path = format!("/threads/t1/tool-calls/{}", suspension["callId"].as_str().unwrap());
    let call = app.get(&path).await.expect(200);
    assert_eq!(call["modifiedArguments"], edited, "{call:#}");
    let (output, digest) = ran(&app).await;
    assert_eq!(output, json!({ "sent": true, "to": "b@example.com", "subject": "Edited" }));
    assert_eq!(digest, pes::domain::digest::of_call("demo_send_email", &edited));
    assert_eq!(call["result"]["output"], output);
    app.get("/threads/t1/tool-calls/call_none").await.problem("not_found");
}

#[tokio::test]
async fn what_was_rejected_does_not_run() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    let body = json!({ "suspensionId": id(&suspension), "approved": false, "reason": "not today" });
    resume(&app, body).await.expect(200);
    let page = app.observed("t1", "TOOL_EXECUTION").await;
    assert_eq!(page[0]["content"]["status"], "error");
    assert!(page[0]["content"]["error"]["message"].as_str().unwrap().contains("not today"), "{page:#?}");
}

#[tokio::test]
async fn a_question_takes_a_value() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "ask").await;
    assert_eq!(suspension["kind"], "input");
    let body = json!({ "suspensionId": id(&suspension), "value": "plum" });
    resume(&app, body).await.expect(200);
    let page = app.observed("t1", "TOOL_EXECUTION").await;
    assert!(page[0]["content"]["output"].to_string().contains("plum"), "{page:#?}");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_changes_nothing() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    let id = id(&suspension);
    resume(&app, json!({ "suspensionId": "sus_none", "approved": true })).await.problem("not_found");
    resume(&app, json!({ "suspensionId": id })).await.problem("invalid");
    resume(&app, json!({ "suspensionId": id, "approved": "yes" })).await.problem("invalid");
    let wrong = json!({ "suspensionId": id, "approved": true, "modifiedArgs": { "to": 7 } });
    resume(&app, wrong).await.problem("invalid");
    let inbox = app.get("/suspensions?status=pending").await.expect(200);
    assert_eq!(inbox["items"][0]["suspensionId"], id, "it is still open");
    resume(&app, json!({ "suspensionId": id, "approved": true })).await.expect(200);
}

#[tokio::test]
async fn the_answer_to_a_cancelled_run_comes_too_late() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    resume(&app, json!({ "suspensionId": id(&suspension), "approved": true })).await.problem("run_cancelled");
}

#[tokio::test]
async fn a_hundred_answers_have_one_winner() {
    one_winner(App::with(all_at_once).await).await;
}

#[tokio::test]
async fn a_hundred_answers_have_one_winner_on_postgresql() {
    let database = Database::fresh().await;
    let store = store_on(&database).await;
    one_winner(App::of(store, all_at_once).await).await;
}

/// All of them may wait for the thread's turn, however slow it is.
fn all_at_once(config: &mut Config) {
    config.limits.mailbox = 100;
}

/// 100 concurrent answers, by REST and by WebSocket: one decides, and all others get its author and time.
async fn one_winner(app: App) {
    let suspension = app.suspend("t1", "send").await;
    let body = json!({ "suspensionId": id(&suspension), "approved": true });
    let rest = futures_util::future::join_all((0..50).map(|_| app.post("/threads/t1/resume", body.clone())));
    let sockets = futures_util::future::join_all((0..50).map(|_| async {
        let mut socket = app.socket("/threads/t1/events?after=latest").await;
        let mut op = body.clone();
        op["op"] = json!("resume");
        op["id"] = json!("r");
        socket.say(op).await;
        socket.answer("r").await
    }));
    let (rest, sockets) = tokio::join!(rest, sockets);
    let won = rest.iter().filter(|said| said.status == 202).count()
        + sockets.iter().filter(|answer| answer["event"] == "ack").count();
    assert_eq!(won, 1);
    let page = app.observed("t1", "AGENT_RESUMED").await;
    assert_eq!(page.len(), 1);
    let told = |problem: &Value| {
        assert_eq!(problem["code"], "already_resolved", "{problem:#}");
        assert_eq!(problem["resolution"]["decidedBy"], "local");
        assert_eq!(problem["resolution"]["decidedAt"], page[0]["timestamp"]);
    };
    rest.iter().filter(|said| said.status != 202).for_each(|lost| told(&lost.problem("already_resolved")));
    sockets.iter().filter(|answer| answer["event"] != "ack").for_each(|lost| told(&lost["data"]["problem"]));
    let audit = app.get("/threads/t1/audit").await.expect(200);
    let decided = audit["items"].as_array().unwrap().iter().filter(|line| line["action"] == "approved");
    assert_eq!(decided.count(), 1, "{audit:#}");
}
