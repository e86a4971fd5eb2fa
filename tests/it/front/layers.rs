//! The layers of a system prompt: persona, server, thread and call are added to what the phase asks for and never
//! replace it.

use std::collections::BTreeMap;

use pes::domain::prompt::{Persona, PersonaPrompts, SystemPrompt};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Step, Wire, says};

fn plan() -> Vec<Step> {
    says(&json!({"title": "t", "intent": "i", "plan": "p", "answer": "ok", "todoList": []}).to_string())
}

async fn start(runs: usize) -> (App, Wire) {
    let wire = Wire::serve(vec![plan(); runs]).await;
    let url = wire.url();
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        let agent = &mut config.agent;
        agent.system_prompt = Some(SystemPrompt::Text("SERVER".to_owned()));
        agent.templates = BTreeMap::from([("support".to_owned(), "You help customers of {{company}}.".to_owned())]);
        let prompts = PersonaPrompts { planning: Some("PLAN LIKE ADA".to_owned()), ..PersonaPrompts::default() };
        agent.persona = Persona { name: Some("Ada".to_owned()), prompts };
    })
    .await;
    (app, wire)
}

/// The system prompt of a run with these options.
async fn told(app: &App, wire: &mut Wire, options: Value) -> String {
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    ask.json(&json!({"query": "hi", "options": options})).send().await.expect(200);
    let messages = wire.request().await.body["messages"].clone();
    assert_eq!(messages[0]["role"], "system");
    messages[0]["content"].as_str().unwrap().to_owned()
}

/// Checks that the texts occur in the prompt in this order.
fn in_order(prompt: &str, texts: &[&str]) {
    let places: Vec<usize> =
        texts.iter().map(|text| prompt.find(text).unwrap_or_else(|| panic!("{text}: {prompt}"))).collect();
    assert!(places.is_sorted(), "{texts:?} stand at {places:?}");
}

#[tokio::test]
async fn layers_stand_one_after_the_other_or_before_those_below() {
    let (app, mut wire) = start(3).await;
    let layer = json!({"tag": "support", "content": "THREAD of {{company}}", "variables": {"company": "{{x}} Ltd"}});
    app.post("/threads", json!({"threadId": "t1", "config": {"systemPrompt": layer}})).await.expect(201);
    let asks = "You plan how to answer";
    let thread = ["You help customers of {{x}} Ltd.", "THREAD of {{x}} Ltd"];

    let prompt = told(&app, &mut wire, json!({})).await;
    assert!(prompt.starts_with("Phase: planning\n"), "{prompt}");
    in_order(&prompt, &["You are Ada.", asks, "PLAN LIKE ADA", "SERVER", thread[0], thread[1]]);

    let options = json!({"systemPrompt": "CALL", "persona": {"name": "Bob", "prompts": {"planning": "LIKE BOB"}}});
    let prompt = told(&app, &mut wire, options).await;
    in_order(&prompt, &["You are Bob.", asks, "LIKE BOB", "SERVER", thread[0], thread[1], "CALL"]);
    assert!(!prompt.contains("Ada") && !prompt.contains("ADA"), "{prompt}");

    let options = json!({"systemPrompt": {"content": "FIRST", "strategy": "prepend"}});
    let prompt = told(&app, &mut wire, options).await;
    in_order(&prompt, &[asks, "FIRST", "SERVER", thread[0]]);
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test]
async fn a_tag_that_nobody_defined_is_refused_by_field() {
    let (app, wire) = start(0).await;
    let body = json!({"query": "hi", "options": {"systemPrompt": {"tag": "none"}}});
    let problem = app.post("/threads/t1/process", body).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/options/systemPrompt/tag", "{problem:#}");
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test]
async fn a_variable_without_a_value_is_refused_at_the_door() {
    let (app, wire) = start(0).await;
    let pointer = |problem: &Value| problem["errors"][0]["pointer"].as_str().unwrap().to_owned();
    let body = json!({"query": "hi", "options": {"systemPrompt": {"tag": "support"}}});
    let problem = app.post("/threads/t1/process", body).await.problem("invalid");
    assert_eq!(pointer(&problem), "/options/systemPrompt/variables/company", "{problem:#}");
    app.get("/threads/t1").await.problem("not_found");
    let layer = json!({"content": "of {{ company }}", "variables": {"compny": "x"}});
    let problem = app.post("/threads", json!({"threadId": "t1", "config": {"systemPrompt": layer}})).await;
    assert_eq!(pointer(&problem.problem("invalid")), "/config/systemPrompt/variables/company");
    let layer = json!({"content": "Write {{\"a\": 1}} and {{}}."});
    app.post("/threads", json!({"threadId": "t1", "config": {"systemPrompt": layer}})).await.expect(201);
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test]
async fn each_stage_hears_its_own_word_of_the_persona() {
    let item = json!({"id": "a", "description": "Think", "stepType": "reasoning"});
    let list = json!({"title": "t", "intent": "i", "plan": "p", "todoList": [item]}).to_string();
    let mut wire = Wire::serve(vec![says(&list), says("thought"), says("It is so.")]).await;
    let url = wire.url();
    let app = App::with(|config| config.models.openai.base_url = Some(url)).await;
    let stages = ["planning", "execution", "synthesis"];
    let words = json!({"planning": "LIKE A PLANNER", "execution": "LIKE A WORKER", "synthesis": "LIKE A WRITER"});
    let said = told(&app, &mut wire, json!({"persona": {"name": "Ada", "prompts": words}})).await;
    let mut heard = vec![said];
    for _ in 1..stages.len() {
        heard.push(wire.request().await.body["messages"][0]["content"].as_str().unwrap().to_owned());
    }
    for (stage, prompt) in stages.iter().zip(&heard) {
        assert!(prompt.starts_with(&format!("Phase: {stage}")) && prompt.contains("You are Ada."), "{prompt}");
        for other in stages {
            let word = words[other].as_str().unwrap();
            assert_eq!(prompt.contains(word), other == *stage, "{word}: {prompt}");
        }
    }
}
