//! A task asks a question, and a message answers it.

use pes::a2a::fault::Error;
use pes::a2a::types::{Content, Part, Task, TaskState};
use pes::config::ConfiguredKey;
use pes::domain::settings::PolicyAction;
use serde_json::{Value, json};

use super::binding::{BINDINGS, NEW, about, message, of, says, text};
use crate::support::app::App;

/// The data part of its question.
fn form(task: &Task) -> &Value {
    let parts = &task.status.message.as_ref().expect("it asks").parts;
    let form = parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    form.expect("a question has a data part")
}

fn data(id: &str, task: &Task, data: Value) -> pes::a2a::types::SendRequest {
    about(task, of(message(id, vec![Part::data(data)])))
}

#[tokio::test]
async fn a_question_is_text_and_data_and_a_text_answers_it() {
    let app = App::with(|config| config.server.public_url = Some("https://agents.example".into())).await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let task = binding.send(&app, &says(&format!("m{nth}"), "ask")).await.unwrap();
        assert_eq!(task.status.state, TaskState::InputRequired, "{binding:?}");
        let question = task.status.message.as_ref().unwrap();
        assert_eq!(text(&question.parts[0]), "Which word?");
        assert_eq!((&question.task_id, &question.context_id), (&Some(task.id.clone()), &Some(task.context_id.clone())));
        let form = form(&task);
        assert_eq!((&form["kind"], &form["schema"]["inputType"]), (&json!("input"), &json!("text")));
        assert!(form["suspensionId"].as_str().is_some_and(|id| id.starts_with("sus_")));
        let place = format!("https://agents.example/#/questions/{}", form["suspensionId"].as_str().unwrap());
        assert_eq!(form["url"], place);
        let done = binding.send(&app, &about(&task, says(&format!("r{nth}"), "blue"))).await.unwrap();
        assert_eq!((done.status.state, &done.id), (TaskState::Completed, &task.id), "{binding:?}");
        assert!(done.status.timestamp >= task.status.timestamp);
        let said: Vec<&str> = done.history.iter().map(|message| text(&message.parts[0])).collect();
        assert_eq!(said, ["ask", "blue"], "{binding:?}");
        assert_eq!(text(&done.artifacts[0].parts[0]), "You were asked.", "{binding:?}");
        assert_eq!(done.history[1].message_id, format!("r{nth}"));
    }
}

#[tokio::test]
async fn an_approval_is_answered_in_plain_words_or_as_data() {
    let app = App::start().await;
    let ran = async |task: &Task| {
        let log = app.observed(&task.context_id, "TOOL_EXECUTION").await;
        (log[0]["content"]["status"].clone(), log[0]["content"]["output"].to_string())
    };
    for (nth, (reply, status, mark)) in [
        (Part::text("Yes!"), "success", ""),
        (Part::text("no"), "error", ""),
        (Part::data(json!({ "approved": true })), "success", ""),
        (Part::data(json!({ "approved": false, "reason": "not today" })), "error", ""),
        (
            Part::data(
                json!({ "approved": true, "modifiedArgs": { "to": "c@example.com", "subject": "S", "body": "B" } }),
            ),
            "success",
            "c@example.com",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let task = NEW.send(&app, &says(&format!("m{nth}"), "send")).await.unwrap();
        assert_eq!(form(&task)["kind"], "approval");
        assert_eq!(form(&task)["toolCall"]["toolName"], "demo_send_email");
        assert_eq!(form(&task)["toolCall"]["arguments"]["to"], "a@example.com");
        let reply = about(&task, of(message(&format!("r{nth}"), vec![reply])));
        assert_eq!(NEW.send(&app, &reply).await.unwrap().status.state, TaskState::Completed);
        let (was, output) = ran(&task).await;
        assert_eq!(was, status, "{nth}");
        assert!(output.contains(mark), "{output}");
    }
}

/// Data is a value of its own type, and no text.
#[tokio::test]
async fn a_list_or_a_number_as_data_answers_a_question_with_options() {
    let app = App::start().await;
    let task = NEW.send(&app, &says("m", "choose")).await.unwrap();
    assert_eq!(form(&task)["schema"]["inputType"], "multiselect");
    let still = NEW.send(&app, &data("r1", &task, json!(["c", "a"]))).await.unwrap();
    assert_eq!(form(&still)["schema"]["inputType"], "select", "{still:#?}");
    let done = NEW.send(&app, &data("r2", &task, json!(2))).await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
    let log = app.observed(&task.context_id, "TOOL_EXECUTION").await;
    let chosen: Vec<&Value> = log.iter().map(|item| &item["content"]["output"]).collect();
    assert_eq!(chosen, [&json!(["c", "a"]), &json!(2)]);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_keeps_the_question_open_and_says_why() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let task = binding.send(&app, &says(&format!("m{nth}"), "send")).await.unwrap();
        for (at, wrong) in [
            Part::text("maybe"),
            Part::data(json!({ "approved": "yes" })),
            Part::data(json!({ "reason": "because" })),
            Part::data(json!({ "approved": true, "modifiedArgs": { "to": 7 } })),
            Part::data(json!({ "suspensionId": "sus_unknown", "approved": true })),
        ]
        .into_iter()
        .enumerate()
        {
            let reply = about(&task, of(message(&format!("w{nth}.{at}"), vec![wrong])));
            let still = binding.send(&app, &reply).await.unwrap();
            assert_eq!(still.status.state, TaskState::InputRequired, "{binding:?} {at}");
            let parts = &still.status.message.as_ref().unwrap().parts;
            assert_eq!(parts.len(), 3, "what was wrong, then the question: {parts:?}");
            assert!(!text(&parts[0]).is_empty());
            assert_eq!(form(&still), form(&task));
        }
        assert_eq!(binding.get(&app, &task.id).await.unwrap(), task, "nothing of it is stored");
        let done = binding.send(&app, &about(&task, says(&format!("r{nth}"), "yes"))).await.unwrap();
        assert_eq!(done.status.state, TaskState::Completed);
    }
}

#[tokio::test]
async fn of_two_questions_the_named_one_or_else_the_oldest_is_answered() {
    let app = App::start().await;
    let task = NEW.send(&app, &says("m1", "two mails")).await.unwrap();
    let open = app.get("/suspensions").await.expect(200)["items"].clone();
    assert_eq!(form(&task)["suspensionId"], open[0]["suspensionId"], "the oldest is shown");
    let answer = json!({ "suspensionId": open[1]["suspensionId"], "approved": true });
    let still = NEW.send(&app, &data("m2", &task, answer)).await.unwrap();
    assert_eq!(still.status.state, TaskState::InputRequired);
    assert_eq!(form(&still)["suspensionId"], open[0]["suspensionId"]);
    let done = NEW.send(&app, &about(&task, says("m3", "yes"))).await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
}

/// Text that looks like the id of a question is not an answer, but other ids start like them.
#[tokio::test]
async fn a_text_that_only_looks_like_the_name_of_a_question_is_the_answer() {
    let app = App::start().await;
    let other = NEW.send(&app, &says("other", "ask")).await.unwrap();
    let elsewhere = form(&other)["suspensionId"].as_str().unwrap().to_owned();
    let never = "sus_01890a5d-ac96-774b-bcce-b302099a8057";
    for (nth, said) in ["sus_arrow", never, &format!("{elsewhere} blue")].into_iter().enumerate() {
        let task = NEW.send(&app, &says(&format!("m{nth}"), "ask")).await.unwrap();
        let done = NEW.send(&app, &about(&task, says(&format!("r{nth}"), said))).await.unwrap();
        assert_eq!(done.status.state, TaskState::Completed, "{said}");
        assert_eq!(app.observed(&task.context_id, "TOOL_EXECUTION").await[0]["content"]["output"], said);
    }
    assert_eq!(NEW.get(&app, &other.id).await.unwrap(), other);
}

/// The message may have been written before the next question was asked.
#[tokio::test]
async fn a_yes_for_what_somebody_else_answered_approves_no_later_call() {
    const ANN: &str = "ann-0123456789abcdef";
    const BOB: &str = "bob-0123456789abcdef";
    let key = |name: &str, key: &str| format!("one/{name}:read+run+approve:{key}").parse::<ConfiguredKey>().unwrap();
    let app = App::with(|config| {
        config.agent.tool_policy.insert("calc*".to_owned(), PolicyAction::Ask);
        config.auth.keys = vec![key("ann", ANN), key("bob", BOB)];
    })
    .await
    .key(ANN);
    let task = NEW.send(&app, &says("m1", "in turn")).await.unwrap();
    let yes = json!({ "suspensionId": form(&task)["suspensionId"], "approved": true });
    let app = app.key(BOB);
    let resume = app.ask("POST", &format!("/threads/{}/resume", task.context_id)).header("prefer", "wait=20");
    let resumed = resume.json(&yes).send().await.expect(202);
    let app = app.key(ANN);
    let next = resumed["suspensions"][0]["suspensionId"].as_str().expect("the next is asked for").to_owned();

    for (nth, said) in [Part::text("yes"), Part::data(json!({ "approved": true }))].into_iter().enumerate() {
        let said = about(&task, of(message(&format!("late-{nth}"), vec![said])));
        let still = NEW.send(&app, &said).await.unwrap();
        assert_eq!(still.status.state, TaskState::InputRequired);
        assert_eq!(form(&still)["suspensionId"], next.as_str());
        let told: Vec<&str> = still.status.message.as_ref().unwrap().parts.iter().map(text_or_nothing).collect();
        assert!(told.concat().contains(&format!("`{next} yes`")), "it says how: {told:?}");
    }
    let done = NEW.send(&app, &about(&task, says("m2", &format!("{next} yes")))).await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
}

fn text_or_nothing(part: &Part) -> &str {
    match &part.content {
        Content::Text(text) => text,
        Content::Data(_) | Content::Raw(_) | Content::Url(_) => "",
    }
}

#[tokio::test]
async fn the_same_answer_again_is_the_same_and_another_comes_too_late() {
    let app = App::start().await;
    let task = NEW.send(&app, &says("m1", "ask")).await.unwrap();
    let reply = about(&task, says("r1", "blue"));
    let done = NEW.send(&app, &reply).await.unwrap();
    for binding in BINDINGS {
        assert_eq!(binding.send(&app, &reply).await.unwrap(), done, "{binding:?}");
        let late = binding.send(&app, &about(&task, says("r2", "red"))).await.unwrap_err();
        assert_eq!(late.error, Error::UnsupportedOperation, "{binding:?}");
        let other = binding.send(&app, &about(&task, says("r1", "red"))).await.unwrap_err();
        assert_eq!(other.error, Error::InvalidParams, "{binding:?}");
    }
    assert_eq!(NEW.get(&app, &task.id).await.unwrap(), done);
}

#[tokio::test]
async fn a_task_that_asks_nothing_takes_no_messages() {
    let app = App::start().await;
    let working = NEW.send(&app, &super::binding::at_once(says("m1", "hang"))).await.unwrap();
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let refused = binding.send(&app, &about(&working, says(&format!("n{nth}"), "hello"))).await.unwrap_err();
        assert_eq!(refused.error, Error::UnsupportedOperation, "{binding:?}");
    }
    assert_eq!(NEW.get(&app, &working.id).await.unwrap().history.len(), 1);
    NEW.cancel(&app, &working.id).await.unwrap();
}

/// The requester may add messages; only approvers decide whether a call runs.
#[tokio::test]
async fn only_an_approver_approves() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let keys = vec![
        key("one:read+run:runner-0123456789abcdef0123456789"),
        key("one:read+run+approve:boss-0123456789abcdef0123456789"),
    ];
    let app = App::with(|config| config.auth.keys = keys).await.key("runner-0123456789abcdef0123456789");
    let asking = NEW.send(&app, &says("m1", "ask")).await.unwrap();
    let done = NEW.send(&app, &about(&asking, says("m2", "blue"))).await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
    let gated = NEW.send(&app, &says("m3", "send")).await.unwrap();
    let refused = NEW.send(&app, &about(&gated, says("m4", "yes"))).await.unwrap_err();
    assert_eq!(refused.error, Error::PermissionDenied);
    assert_eq!(NEW.get(&app, &gated.id).await.unwrap(), gated);
    let app = app.key("boss-0123456789abcdef0123456789");
    let done = NEW.send(&app, &about(&gated, says("m5", "yes"))).await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
}

#[tokio::test]
async fn a_question_is_told_at_once_whatever_else_of_the_task_is_at_work() {
    let app = App::start().await;
    let config = json!({ "executionConfig": { "maxParallelItems": 2 } });
    app.post("/threads", json!({ "threadId": "t", "config": config })).await.expect(201);
    let mut request = says("m", "early");
    request.message.context_id = Some("t".into());
    let task = crate::support::http::soon(NEW.send(&app, &request)).await.unwrap();
    assert_eq!(task.status.state, TaskState::InputRequired, "{task:#?}");
    assert_eq!(app.get(&format!("/runs/{}", task.id)).await.expect(200)["status"], "running");
}
