//! Which questions a server may ask during a call, and which person is asked.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pes::config::Config;
use pes::domain::hitl::{InputType, Question, Reply};
use pes::domain::ids::TenantPk;
use pes::domain::tool::ToolError;
use pes::tool::{People, ToolContext};
use serde_json::{Value, json};
use tokio::process::Command;

use super::bed::{Bed, TENANT, asking_app, evil};
use crate::support::app::App;
use crate::support::http::{pass, soon};
use crate::support::tool::context;

/// Gives the same answer to everything, and records the questions.
#[derive(Debug)]
struct Person {
    says: Result<Reply, ToolError>,
    heard: Mutex<Vec<Question>>,
}

impl Person {
    fn who(says: Result<Reply, ToolError>) -> Arc<Self> {
        Arc::new(Self { says, heard: Mutex::default() })
    }
}

#[async_trait]
impl People for Person {
    async fn ask(&self, question: Question) -> Result<Reply, ToolError> {
        self.heard.lock().unwrap().push(question);
        self.says.clone()
    }
}

/// The answer that the server received.
async fn told(bed: &Bed, tenant: TenantPk, person: &Arc<Person>) -> Value {
    told_by("evil__elicit", bed, tenant, person).await
}

async fn told_by(tool: &str, bed: &Bed, tenant: TenantPk, person: &Arc<Person>) -> Value {
    let context = ToolContext { tenant, people: person.clone(), ..context() };
    let output = soon(bed.tool(tool).await.call(json!({}), context)).await.unwrap().output;
    serde_json::from_str(output.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_person_of_the_call_is_asked_with_a_form_and_the_server_is_told() {
    let bed = Bed::new(|_| ()).await;
    let red = json!({ "colour": "red" });
    let person = Person::who(Ok(Reply::Accepted { value: red.clone() }));
    assert_eq!(told(&bed, TENANT, &person).await, json!({ "action": "accept", "content": red }));
    let question = person.heard.lock().unwrap().remove(0);
    assert_eq!((question.message.as_str(), question.form.input_type), ("Your colour?", InputType::Custom));
    let schema = question.form.custom_schema.unwrap();
    assert_eq!((&schema["type"], &schema["properties"]["colour"]["type"]), (&json!("object"), &json!("string")));
    assert_eq!(told(&bed, TENANT, &Person::who(Ok(Reply::Declined))).await["action"], "decline");
    assert_eq!(told(&bed, TENANT, &Person::who(Ok(Reply::Cancelled))).await["action"], "cancel");
    let nobody = ToolError::new("invalid_arguments", "no");
    assert_eq!(told(&bed, TENANT, &Person::who(Err(nobody))).await["code"], -32602);
}

/// The protocol knows no such form, but pydantic makes one of `Optional`.
#[tokio::test]
async fn a_person_is_asked_with_a_form_of_any_schema() {
    let bed = Bed::new(|_| ()).await;
    let person = Person::who(Ok(Reply::Accepted { value: json!({ "colour": null }) }));
    let told = told_by("evil__elicit_optional", &bed, TENANT, &person).await;
    assert_eq!(told, json!({ "action": "accept", "content": { "colour": null } }));
    let question = person.heard.lock().unwrap().remove(0);
    let colour = &question.form.custom_schema.unwrap()["properties"]["colour"];
    assert_eq!(*colour, json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }));
}

#[tokio::test]
async fn nobody_is_asked_what_may_be_another_calls_question() {
    let bed = Bed::new(|_| ()).await;
    let person = Person::who(Ok(Reply::Accepted { value: json!({}) }));
    let other = ToolContext { tenant: TenantPk(2), ..context() };
    let hanging = bed.tool("evil__hang").await;
    {
        let mut call = std::pin::pin!(hanging.call(json!({}), other));
        tokio::select! {
            ended = &mut call => panic!("{ended:?}"),
            told = told(&bed, TENANT, &person) => assert_eq!(told["action"], "decline", "two calls run"),
        }
    }
    assert_eq!(told(&bed, TENANT, &person).await["action"], "decline", "the one that was given up may still ask");
    assert!(person.heard.lock().unwrap().is_empty());
    assert_eq!(told(&bed, TenantPk(2), &person).await["action"], "accept", "its own people may be asked");
    pass(std::time::Duration::from_secs(601)).await;
    assert_eq!(told(&bed, TENANT, &person).await["action"], "accept", "by now it is over at the server, too");
}

#[tokio::test]
async fn a_servers_question_is_a_suspension_of_the_running_call() {
    let (app, _folder) = asking_app().await;
    // A waiting client is notified, although the call continues.
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&json!({ "query": "ask" }));
    let receipt = ask.send().await.expect(202);
    let question = app.asked("t1").await;
    // A waiting client gets a link to its place in the page, too.
    let mut told = receipt["suspensions"].clone();
    assert!(told[0].as_object_mut().unwrap().remove("url").is_some());
    assert_eq!((&receipt["status"], &told), (&json!("running"), &json!([question])));
    assert_eq!((&question["kind"], &question["whileRunning"]), (&json!("input"), &json!(true)), "{question:#}");
    assert_eq!(question["message"], "evil__elicit asks: Your colour?");
    assert_eq!(app.get(receipt["runUrl"].as_str().unwrap()).await.expect(200)["status"], "running");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"], question["suspensionId"]);
    let answer = |value: Value| json!({ "suspensionId": question["suspensionId"], "value": value });
    let problem = app.post("/threads/t1/resume", answer(json!({ "colour": 7 }))).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/value/colour");
    app.post("/threads/t1/resume", answer(json!({ "colour": "red" }))).await.expect(202);
    let run = format!("/runs/{}?wait=30", receipt["runId"].as_str().unwrap());
    assert_eq!(app.get(&run).await.expect(200)["status"], "completed");
    let late = app.post("/threads/t1/resume", answer(json!({ "colour": "blue" }))).await;
    late.problem("already_resolved");
    let call = question["callId"].as_str().unwrap();
    let call = app.get(&format!("/threads/t1/tool-calls/{call}")).await.expect(200);
    let output: Value = serde_json::from_str(call["result"]["output"].as_str().unwrap()).unwrap();
    assert_eq!(output, json!({ "action": "accept", "content": { "colour": "red" } }));
}

/// Its answer lets nothing run, so whoever shaped the call may give it, and is told so.
#[tokio::test]
async fn four_eyes_are_about_the_call_and_not_about_what_it_asks() {
    let (app, _folder) = asking_app().await;
    let key = |name: &str, scopes: Value| json!({ "tenant": "default", "name": name, "scopes": scopes });
    let boss = app.post("/keys", key("boss", json!(["admin"]))).await.expect(201)["key"].clone();
    let app = app.key(boss.as_str().unwrap());
    let asker = key("asker", json!(["read", "run", "approve"]));
    let asker = app.post("/keys", asker).await.expect(201)["key"].clone();
    let rule = json!({ "tool": "evil__*", "action": "ask", "fourEyes": true });
    app.ask("PUT", "/policy").json(&json!({ "rules": [rule] })).send().await.expect(200);
    let app = app.key(asker.as_str().unwrap());
    let approval = app.suspend("t1", "ask").await;
    let seen = app.get("/suspensions").await.expect(200)["items"][0].clone();
    assert_eq!(seen["mayAnswer"], json!({ "approve": false, "reject": true, "why": "four_eyes" }));
    let app = app.key(boss.as_str().unwrap());
    let yes = json!({ "suspensionId": approval["suspensionId"], "approved": true });
    let ask = app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&yes);
    let receipt = ask.send().await.expect(202);
    let question = &receipt["suspensions"][0];
    assert_eq!((&question["kind"], &question["policy"]["fourEyes"]), (&json!("input"), &json!(true)), "{receipt:#}");
    let app = app.key(asker.as_str().unwrap());
    let seen = app.get("/suspensions").await.expect(200)["items"][0].clone();
    assert_eq!(seen["suspensionId"], question["suspensionId"]);
    assert_eq!(seen["mayAnswer"], json!({ "approve": true, "reject": true }));
    let answer = json!({ "suspensionId": question["suspensionId"], "value": { "colour": "red" } });
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
}

#[tokio::test]
async fn a_command_that_asks_nobody_ends_when_a_call_asks() {
    let (app, folder) = asking_app().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_pes"));
    command.args(["run", "ask", "--thread", "t1", "--no-input"]).current_dir(folder.path()).env_clear();
    command.env("PES_URL", format!("http://{}", app.address)).kill_on_drop(true);
    let output = soon(command.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let waits = said.contains("The run waits for a person: evil__elicit (sus_");
    assert_eq!((output.status.code(), waits), (Some(4), true), "{said}");
    assert_eq!(app.asked("t1").await["whileRunning"], true, "the call still runs");
}

const TWO_STEPS: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "A", intent = "A", plan = "A", todoList = [
    { id = "hang", description = "Hang", stepType = "tool", requiredTools = ["evil__hang"] },
    { id = "send", description = "Send", stepType = "tool", requiredTools = ["demo_send_email"] },
] }
[[reply]]
when = { phase = "execution", item = "hang" }
calls = [{ tool = "evil__hang", arguments = {} }]
[[reply]]
when = { phase = "execution", item = "send" }
calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "A", body = "A" } }]
"#;

#[tokio::test]
async fn who_waits_hears_of_an_approval_while_another_step_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let with_evil = |config: &mut Config| _ = config.mcp.servers.insert("evil".to_owned(), evil(folder.path()));
    let app = App::scripted(TWO_STEPS, with_evil).await;
    app.offers("evil__hang").await;
    let config = json!({ "threadId": "t1", "config": { "executionConfig": { "maxParallelItems": 2 } } });
    app.post("/threads", config).await.expect(201);
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&json!({ "query": "both" }));
    let receipt = ask.send().await.expect(202);
    assert_eq!(receipt["status"], "running", "{receipt:#}");
    assert_eq!(receipt["suspensions"][0]["toolName"], "demo_send_email", "{receipt:#}");
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
}
