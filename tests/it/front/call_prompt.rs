//! The prompt of a model call is rendered again after the call.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Request, Step, Wire, end, event, event_stream, says};

/// Every model call of a thread as shown, in the order of their starts.
pub async fn prompts(app: &App, thread: &str) -> Vec<Value> {
    let log = app.get(&format!("/threads/{thread}/events?types=LLM_STREAM_START&limit=1000")).await.expect(200);
    let mut shown = Vec::new();
    for told in log["items"].as_array().unwrap() {
        let (stream, seq) = (told["content"]["streamId"].as_str().unwrap(), &told["seq"]);
        let prompt = app.get(&format!("/threads/{thread}/streams/{stream}")).await.expect(200);
        assert_eq!((&prompt["streamId"], &prompt["seq"]), (&json!(stream), seq));
        assert_eq!(prompt["phase"], told["content"]["phase"], "{prompt:#}");
        assert_eq!(prompt["itemId"], told["parentId"], "{prompt:#}");
        shown.push(prompt);
    }
    shown
}

/// The kinds of a prompt's parts.
pub fn kinds(prompt: &Value) -> Vec<&str> {
    prompt["parts"].as_array().unwrap().iter().map(|part| part["kind"].as_str().unwrap()).collect()
}

/// The text of the parts, without white space.
fn words(prompt: &Value) -> String {
    let texts = prompt["parts"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap());
    texts.flat_map(str::split_whitespace).collect()
}

pub fn are_exact(prompts: &[Value]) {
    let differing: Vec<&Value> = prompts.iter().filter(|prompt| prompt["exact"] != true).collect();
    assert_eq!(differing, Vec::<&Value>::new());
}

fn calls(tool: &str, arguments: Value) -> Vec<Step> {
    let call = json!({"index": 0, "id": "c1", "function": {"name": tool, "arguments": arguments.to_string()}});
    let chunk = |delta: Value, reason: Value| event(json!({"choices": [{"delta": delta, "finish_reason": reason}]}));
    vec![
        event_stream(),
        chunk(json!({ "tool_calls": [call] }), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        end(),
    ]
}

async fn start(exchanges: Vec<Vec<Step>>) -> (App, Wire) {
    let wire = Wire::serve(exchanges).await;
    let url = wire.url();
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        config.models.choice = vec!["openai:m".parse().unwrap()];
    })
    .await;
    (app, wire)
}

/// The text sent, without white space; calls of the assistant are part of its text.
fn sent(request: &Request) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    let said = messages.iter().map(|message| message["content"].as_str().unwrap_or_default());
    said.flat_map(str::split_whitespace).collect()
}

/// Two items, the second of which depends on the first, and a follow-up: every prompt is shown as it was sent.
#[tokio::test]
async fn every_prompt_of_a_run_is_shown_as_it_was_sent() {
    let sum = json!({"id": "sum", "description": "Add", "stepType": "tool", "requiredTools": ["calculator"]});
    let tell = json!({"id": "tell", "description": "Tell", "stepType": "reasoning", "dependencies": ["sum"]});
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "todoList": [sum, tell]});
    let exchanges = vec![
        says(&plan.to_string()),
        calls("calculator", json!({"expression": "2 + 2"})),
        says("The sum is 4."),
        says("It was told."),
        says("Four."),
        says(&json!({"title": "t", "intent": "i", "plan": "p", "answer": "Still four.", "todoList": []}).to_string()),
    ];
    let (app, mut wire) = start(exchanges).await;
    let config = json!({"systemPrompt": "Be brief.", "enabledTools": ["calculator"]});
    app.post("/threads", json!({"threadId": "t1", "config": config})).await.expect(201);
    assert_eq!(app.finish("t1", "two and two?").await["response"]["content"], "Four.");
    assert_eq!(app.finish("t1", "sure?").await["response"]["content"], "Still four.");

    let shown = prompts(&app, "t1").await;
    are_exact(&shown);
    for prompt in &shown {
        let request = wire.request().await;
        let (shown, sent) = (words(prompt), sent(&request));
        // The arguments of a call are sent apart from the text.
        let shown = shown.replace(r#"calculator({"expression":"2+2"})"#, "");
        assert_eq!(shown, sent, "{prompt:#}");
    }
    let [plan, first, second, other, synthesis, refined] = &shown[..] else { panic!("{shown:#?}") };
    assert_eq!(kinds(plan), ["system", "tools", "thread", "system", "query"]);
    assert_eq!((&plan["tools"], &first["tools"]), (&json!([]), &json!(["calculator"])), "a planner calls none");
    assert_eq!(kinds(first), ["system", "tools", "thread", "system", "item"]);
    assert_eq!(kinds(second), ["system", "tools", "thread", "system", "item", "loop", "loop"]);
    let of: Vec<&Value> = second["parts"].as_array().unwrap()[5..].iter().map(|part| &part["of"]).collect();
    assert_eq!(of, ["assistant", "calculator"]);
    assert_eq!(
        (kinds(other), &other["itemId"]),
        (vec!["system", "thread", "system", "item", "results"], &json!("tell"))
    );
    assert_eq!(kinds(synthesis), ["system", "thread", "system", "query", "plan", "results"]);
    let asked = ["system", "tools", "thread", "system", "conversation", "conversation", "query", "plan"];
    assert_eq!(kinds(refined), asked);
    assert_eq!(refined["parts"][4]["text"], "two and two?");
    assert!(plan["parts"].as_array().unwrap().iter().all(|part| part["tokens"].as_u64() > Some(0)), "{plan:#}");
    assert_eq!(plan["parts"][2]["text"], "Be brief.");
}

/// A person's decision is part of the next prompt, and a call that waits shows the prompt so far.
#[tokio::test]
async fn an_approved_call_and_an_edited_one_are_shown_as_the_model_saw_them() {
    let app = App::start().await;
    for (thread, edit) in [("t1", None), ("t2", Some(json!({"to": "b@example.com", "subject": "S", "body": "B"})))] {
        let question = app.suspend(thread, "send").await;
        assert_eq!(prompts(&app, thread).await.len(), 2, "a suspended run shows its prompts, too");
        let mut answer = json!({"suspensionId": question["suspensionId"], "approved": true});
        edit.into_iter().for_each(|edited| answer["modifiedArgs"] = edited);
        let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=20");
        resume.json(&answer).send().await.expect(200);
        let shown = prompts(&app, thread).await;
        are_exact(&shown);
        assert_eq!(shown.len(), 4, "{shown:#?}");
        assert_eq!(words(&shown[2]).contains("b@example.com"), thread == "t2", "{:#}", shown[2]);
    }
}

/// A run without a plan is shown as one item in its conversation.
#[tokio::test]
async fn the_loop_of_a_core_without_plans_is_shown() {
    let exchanges = vec![says("One."), calls("calculator", json!({"expression": "1 + 1"})), says("Two.")];
    let (app, _wire) = start(exchanges).await;
    let config = json!({"agentCore": "react", "enabledTools": ["calculator"]});
    app.post("/threads", json!({"threadId": "t1", "config": config})).await.expect(201);
    app.finish("t1", "the first").await;
    app.finish("t1", "the second").await;
    let shown = prompts(&app, "t1").await;
    are_exact(&shown);
    let asked = ["system", "tools", "system", "conversation", "conversation", "item", "loop", "loop"];
    assert_eq!(kinds(&shown[2]), asked, "{:#}", shown[2]);
}

/// The reason for a repair is not stored, so the page must not show this as the sent prompt.
#[tokio::test]
async fn what_cannot_be_rendered_again_is_not_said_to_be_exact() {
    let answer = json!({"title": "t", "intent": "i", "plan": "p", "answer": "Yes.", "todoList": []});
    let (app, _wire) = start(vec![says("{\"todoList\": 7}"), says(&answer.to_string())]).await;
    app.finish("t1", "hello?").await;
    let shown = prompts(&app, "t1").await;
    let exact: Vec<&Value> = shown.iter().map(|prompt| &prompt["exact"]).collect();
    assert_eq!(exact, [true, false], "{shown:#?}");
}

#[tokio::test]
async fn a_call_that_nobody_made_is_not_found() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    app.get("/threads/t1/streams/stm_0").await.problem("not_found");
    app.get("/threads/t9/streams/stm_0").await.problem("not_found");
}
