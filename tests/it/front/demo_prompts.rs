//! The prompts that the demo model offers, in any order, in one thread.

use serde_json::{Value, json};

use crate::support::app::App;

async fn asked(app: &App, thread: &str, query: &str) -> Value {
    let path = format!("/threads/{thread}/process");
    app.ask("POST", &path).header("prefer", "wait=30").json(&json!({ "query": query })).send().await.json()
}

async fn decided(app: &App, thread: &str, said: &Value, approved: bool) -> Value {
    let decision = json!({ "suspensionId": said["suspensions"][0]["suspensionId"], "approved": approved });
    let path = format!("/threads/{thread}/resume");
    app.ask("POST", &path).header("prefer", "wait=30").json(&decision).send().await.expect(200)
}

/// Sends a query, approves what it asks, and returns its result.
async fn answered(app: &App, thread: &str, query: &str) -> Value {
    let said = asked(app, thread, query).await;
    if said["status"] == "suspended" { decided(app, thread, &said, true).await } else { said }
}

#[tokio::test]
async fn each_is_known_after_each_other_in_one_thread() {
    let app = App::with(|config| config.models.demo.script = None).await;
    let models = app.get("/models").await.expect(200);
    let [dinner, invitation, menus] = [
        "Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.",
        "Send the team an invitation to the dinner.",
        "Five guests want the vegetarian menu at 36.00: change the plan and tell me the new share.",
    ];
    assert_eq!(models["items"][0]["prompts"], json!([dinner, invitation, menus]));
    for (first, before) in [dinner, invitation, menus].into_iter().enumerate() {
        for (second, query) in [dinner, invitation, menus].into_iter().enumerate() {
            let thread = format!("t{first}{second}");
            answered(&app, &thread, before).await;
            let said = answered(&app, &thread, query).await;
            let expected = match query {
                _ if query == dinner => "**Each guest pays 47.60.**",
                _ if query == invitation => "The invitation to the team dinner was written, approved and handed over.",
                // It changes a plan, and after itself there is none.
                _ if before == menus => "This prompt changes a plan, and this thread has none yet.",
                _ => "**With five vegetarian menus each guest pays 45.00**",
            };
            let content = said["response"]["content"].as_str().unwrap_or_default();
            assert!(content.starts_with(expected), "{before} / {query}: {said:#}");
        }
    }
}

#[tokio::test]
async fn the_dinner_is_worked_out_again_where_it_was_already() {
    let app = App::with(|config| config.models.demo.script = None).await;
    let dinner = "Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.";
    for _ in 0..2 {
        let metadata = answered(&app, "t1", dinner).await["metadata"].take();
        let counted = ["llmCalls", "toolCalls", "toolErrors"].map(|name| metadata[name].clone());
        assert_eq!(
            (&metadata["status"], counted),
            (&json!("success"), [json!(11), json!(5), json!(1)]),
            "{metadata:#}"
        );
    }
    assert_eq!(app.get("/threads/t1/state").await.expect(200)["title"], "Team dinner");
}

#[tokio::test]
async fn each_invitation_is_approved_and_sent_by_itself() {
    let app = App::with(|config| config.models.demo.script = None).await;
    for (approved, answer) in [
        (true, "The invitation to the team dinner was written, approved and handed over."),
        (true, "The invitation to the team dinner was written, approved and handed over."),
        (false, "The invitation was written, but **not sent**"),
        (true, "The invitation to the team dinner was written, approved and handed over."),
    ] {
        let said = asked(&app, "t1", "Send the team an invitation to the dinner.").await;
        assert_eq!(said["status"], "suspended", "{said:#}");
        assert_eq!(said["suspensions"][0]["toolName"], "demo_send_email", "{said:#}");
        let said = decided(&app, "t1", &said, approved).await;
        let content = said["response"]["content"].as_str().unwrap_or_default();
        assert!(content.starts_with(answer), "approved: {approved}: {said:#}");
    }
}
