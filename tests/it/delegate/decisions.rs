//! Two servers of ours: what one asks about a call or a plan of its own is shown, decided and recorded at the other.

use pes::config::ConfiguredKey;
use pes::domain::settings::{PlanReview, PolicyAction};
use rstest::rstest;
use serde_json::{Value, json};

use super::{calling, card, ended, knowing, knows, results};
use crate::openai::{chat, said, with};
use crate::support::app::App;

/// A server that asks before it sends an e-mail.
async fn mailing() -> App {
    App::scripted(&calling("demo_send_email", "{ to = 'a@example.com', subject = 'S', body = 'B' }"), |_| {}).await
}

/// Answers the question on the thread `t`, and waits for the end of its run. The delegated task, and the thread at the
/// other server.
async fn decided(one: &App, asked: &Value, decision: Value) -> (Value, String) {
    let answer = with(decision, json!({ "suspensionId": asked["suspensionId"] }));
    one.post("/threads/t/resume", answer).await.expect(202);
    let task = one.get("/threads/t/tasks").await.expect(200)["items"][0].clone();
    ended(one, task["runId"].as_str().unwrap()).await;
    let task = one.get(&format!("/tasks/{}", task["taskId"].as_str().unwrap())).await.expect(200);
    let thread = task["remoteContextId"].as_str().unwrap().to_owned();
    (task, thread)
}

async fn resumed(app: &App, thread: &str) -> Value {
    app.observed(thread, "AGENT_RESUMED").await[0]["content"].clone()
}

#[tokio::test]
async fn a_call_of_the_other_server_is_shown_with_its_risk_instead_of_the_delegation() {
    let other = mailing().await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let theirs = other.get("/suspensions").await.expect(200)["items"][0].clone();
    assert_eq!((&asked["kind"], &asked["riskLevel"]), (&json!("approval"), &json!("high")), "{asked:#}");
    assert_eq!(asked["toolInput"], json!({ "to": "a@example.com", "subject": "S", "body": "B" }));
    assert!(theirs["digest"].is_string(), "{theirs:#}");
    for member in ["kind", "toolName", "toolInput", "class", "idempotent", "digest", "riskLevel"] {
        assert_eq!(asked[member], theirs[member], "{member}");
    }
    assert_eq!(asked["message"], format!("helper asks: {}", theirs["message"].as_str().unwrap()));
    assert_eq!(asked["remote"]["agentId"], "helper");
    assert_eq!(asked["feedbackSchema"]["allowModifyArgs"], theirs["feedbackSchema"]["allowModifyArgs"]);
    assert!(!asked.to_string().contains("Look into it."), "{asked:#}");
    let value = json!({ "suspensionId": asked["suspensionId"], "value": true });
    assert_eq!(one.post("/threads/t/resume", value).await.status, 422);
}

#[tokio::test]
async fn an_approval_runs_the_call_there_and_is_recorded_here_with_its_digest() {
    let other = mailing().await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let (_, thread) = decided(&one, &asked, json!({ "approved": true, "digest": asked["digest"] })).await;
    assert_eq!(results(&other, &thread).await[0]["status"], "success");
    assert_eq!(results(&one, "t").await[0]["output"]["text"], "All is done.");
    let (here, there) = (resumed(&one, "t").await, resumed(&other, &thread).await);
    assert_eq!((&here["decision"], &here["digest"]), (&json!("approved"), &asked["digest"]), "{here:#}");
    assert_eq!((&there["decision"], &there["digest"]), (&json!("approved"), &asked["digest"]), "{there:#}");
}

#[tokio::test]
async fn a_call_runs_there_with_the_arguments_that_were_edited_here() {
    let other = mailing().await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let edited = json!({ "to": "b@example.com", "subject": "S", "body": "B" });
    let (_, thread) = decided(&one, &asked, json!({ "approved": true, "modifiedArgs": edited })).await;
    assert_eq!(results(&other, &thread).await[0]["output"]["to"], "b@example.com");
    let (here, there) = (resumed(&one, "t").await, resumed(&other, &thread).await);
    assert_eq!((&here["decision"], &here["digest"]), (&json!("modified"), &there["digest"]), "{here:#}");
    assert_ne!(here["digest"], asked["digest"]);
}

/// The other server goes on without the call.
#[tokio::test]
async fn a_rejection_reaches_the_other_server_with_its_reason() {
    let other = mailing().await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let (task, thread) = decided(&one, &asked, json!({ "approved": false, "reason": "not today" })).await;
    let there = resumed(&other, &thread).await;
    assert_eq!((&there["decision"], &there["reason"]), (&json!("rejected"), &json!("not today")), "{there:#}");
    let error = results(&other, &thread).await[0]["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!("rejected"), &json!("not today")));
    assert_ne!(task["status"], "canceled", "{task:#}");
    assert_ne!(results(&one, "t").await[0]["error"]["code"], "rejected", "the delegation itself was not rejected");
}

#[tokio::test]
async fn edited_arguments_that_do_not_fit_are_asked_for_again_with_the_reason() {
    let other = mailing().await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let mut socket = one.socket("/threads/t/events?after=latest").await;
    let wrong = json!({ "suspensionId": asked["suspensionId"], "approved": true, "modifiedArgs": { "to": 7 } });
    one.post("/threads/t/resume", wrong).await.expect(202);
    let frames = socket.until(|frame| crate::support::ws::is(frame, "AGENT_SUSPENDED")).await;
    let again = frames.last().unwrap()["data"]["content"].clone();
    assert_ne!(again["suspensionId"], asked["suspensionId"]);
    let (message, question) = (again["message"].as_str().unwrap(), theirs_of(&asked));
    assert!(message.starts_with("helper asks: ") && message.contains("/modifiedArgs"), "{message}");
    assert!(message.ends_with(question), "{message}");
    assert_eq!(again["toolInput"], asked["toolInput"]);
}

/// The other server's words.
fn theirs_of(asked: &Value) -> &str {
    asked["message"].as_str().unwrap().strip_prefix("helper asks: ").unwrap()
}

#[tokio::test]
async fn a_plan_of_the_other_server_is_reviewed_here() {
    let script = calling("calculator", "{ expression = '2+2' }");
    let other = App::scripted(&script, |config| config.agent.execution.plan_review = Some(PlanReview::Always)).await;
    let one = knowing(card(&other), 50).await;
    let asked = one.suspend("t", "delegate").await;
    let theirs = other.get("/suspensions").await.expect(200)["items"][0].clone();
    assert_eq!((&asked["kind"], &asked["plan"]), (&json!("plan_review"), &theirs["plan"]), "{asked:#}");
    assert_eq!(asked["plan"]["items"][0]["description"], "Do it");
    assert_eq!((&asked["toolName"], &asked["toolInput"]), (&Value::Null, &Value::Null));
    let (_, thread) = decided(&one, &asked, json!({ "approved": true, "digest": theirs["digest"] })).await;
    assert_eq!(resumed(&other, &thread).await["decision"], "approved");
    assert_eq!(results(&one, "t").await[0]["output"]["text"], "All is done.");
}

/// At a door where questions are answered by words. A call of high risk is not approved by words, whatever the key.
#[rstest]
#[case::of_high_risk("demo_send_email", "{ to = 'a@example.com', subject = 'S', body = 'B' }", "a@example.com")]
#[case::of_no_risk("calculator", "{ expression = '2+2' }", "2+2")]
#[tokio::test]
async fn a_key_that_may_not_approve_approves_nothing_at_the_other_server(
    #[case] tool: &str,
    #[case] arguments: &str,
    #[case] shown: &str,
) {
    let policy = ("calculator".to_owned(), PolicyAction::Ask);
    let other = App::scripted(&calling(tool, arguments), |config| config.agent.tool_policy.extend([policy])).await;
    let one = App::with(|config| {
        knows(config, card(&other), 50);
        let keys =
            ["one/boss:admin:boss-0123456789abcdef0123456789", "one/asker:read+run:asker-0123456789abcdef012345"];
        config.auth.keys = keys.map(|key| key.parse::<ConfiguredKey>().unwrap()).to_vec();
    })
    .await
    .key("asker-0123456789abcdef012345");
    let says = async |app: &App, text: &str| {
        let body = with(said(text), json!({ "metadata": { "pes_thread": "t" } }));
        let completion = chat(app, &body).send().await.expect(200);
        completion["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let question = says(&one, "delegate").await;
    assert!(question.contains(&format!("Tool `{tool}`:")) && question.contains(shown), "{question}");
    assert!(!question.contains("Look into it."), "{question}");
    assert_eq!(says(&one, "yes").await, question);
    let pending = async || other.get("/suspensions").await.expect(200)["items"].as_array().unwrap().len();
    assert_eq!(pending().await, 1, "nobody has approved it");
    let one = one.key("boss-0123456789abcdef0123456789");
    if tool == "calculator" {
        assert_eq!(says(&one, "yes").await, "The helper has done it.");
        assert_eq!(pending().await, 0);
    } else {
        assert_eq!(says(&one, "yes").await, question);
    }
}
