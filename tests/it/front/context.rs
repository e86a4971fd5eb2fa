//! Over HTTP, a conversation longer than the model's context is summarised once, and the summary is stored.

use std::sync::Arc;

use pes::config::Facts;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::call_prompt::{self, are_exact, kinds};
use crate::support::app::App;
use crate::support::wire::{Step, Wire, says};

fn answers(text: &str) -> Vec<Step> {
    says(&json!({"title": "t", "intent": "i", "plan": "p", "answer": text, "todoList": []}).to_string())
}

/// A thread `t1` whose model has a small context, and its replies.
async fn start(exchanges: Vec<Vec<Step>>) -> (App, Wire) {
    let wire = Wire::serve(exchanges).await;
    let (url, facts) = (wire.url(), Facts { context_window: Some(3_600), max_output: None });
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        config.models.choice = vec!["openai:small".parse().unwrap()];
        config.models.facts.insert("openai:small".to_owned(), facts);
    })
    .await;
    app.post("/threads", json!({"threadId": "t1", "config": {"enabledTools": []}})).await.expect(201);
    (app, wire)
}

/// The next prompts, this many.
async fn prompts(wire: &mut Wire, count: usize) -> Vec<String> {
    let mut prompts = Vec::new();
    for _ in 0..count {
        prompts.push(wire.request().await.body["messages"].to_string());
    }
    assert_eq!(wire.waiting(), 0);
    prompts
}

#[tokio::test]
async fn the_oldest_messages_are_summed_up_once() {
    let long = "a".repeat(3_500);
    let exchanges =
        vec![answers(&long), answers(&long), says("They spoke of apples."), answers("three"), answers("four")];
    let (app, mut wire) = start(exchanges).await;
    let mut run = Value::Null;
    for query in ["the first", "the second", "the third", "the fourth"] {
        run = app.finish("t1", query).await;
        assert_eq!(run["metadata"]["status"], "success", "{run:#}");
        if query == "the third" {
            assert_eq!(run["metadata"]["llmCalls"], 2, "a summary is a call: {run:#}");
        }
    }
    assert_eq!((&run["response"]["content"], &run["metadata"]["llmCalls"]), (&json!("four"), &json!(1)));

    let prompts = prompts(&mut wire, 5).await;
    assert!(prompts[2].contains("Phase: summary") && prompts[2].contains("the first"), "{}", prompts[2]);
    for prompt in &prompts[3..] {
        assert!(prompt.contains("Phase: ") && prompt.contains("They spoke of apples."), "{prompt}");
        assert!(!prompt.contains("the first"), "{prompt}");
    }
    assert!(!prompts[2].contains("the third") && prompts[3].contains("the third"));

    let mut shown = call_prompt::prompts(&app, "t1").await;
    assert_eq!(shown.remove(2).get("exact"), None, "nothing was sent before the summary was there");
    are_exact(&shown);
    assert_eq!(kinds(&shown[2]), ["system", "query"], "a summary: {:#}", shown[2]);
    assert_eq!(kinds(&shown[3]), ["system", "summary", "query"], "{:#}", shown[3]);

    let items = app.observed("t1", "LLM_STREAM_START,LLM_STREAM_METADATA").await;
    let purposes: Vec<&Value> = items.iter().filter(|it| it["content"]["purpose"] == "summary").collect();
    assert_eq!((purposes.len(), &purposes[0]["content"]["phase"]), (1, &json!("planning")));
    let context = &items.last().unwrap()["metadata"]["context"];
    let counted = (context["summarised"].as_u64().unwrap(), context["kept"].as_u64().unwrap());
    assert_eq!((counted.0 + counted.1, &context["shortened"], context.get("leftOut")), (6, &json!(0), None));
    let messages = app.get("/threads/t1/messages").await.expect(200);
    assert_eq!(messages["items"].as_array().unwrap().len(), 8, "people still see all of them");
}

#[tokio::test]
async fn a_copy_knows_the_summary_and_nothing_falls_between_it_and_a_small_limit() {
    let long = "a".repeat(3_500);
    let summed = [says("They spoke of apples."), answers("three")];
    let limited = [says("Apples, and then pears."), answers("four")];
    let exchanges = [vec![answers(&long), answers(&long)], summed.into(), vec![answers("copied")], limited.into()];
    let (app, mut wire) = start(exchanges.concat()).await;
    for query in ["the first", "the second", "the third"] {
        app.finish("t1", query).await;
    }
    prompts(&mut wire, 4).await;

    app.post("/threads/t1/fork", json!({"threadId": "t2"})).await.expect(201);
    let run = app.finish("t2", "in the copy").await;
    assert_eq!(run["metadata"]["llmCalls"], 1, "nothing is summed up again: {run:#}");
    let told = prompts(&mut wire, 1).await.remove(0);
    assert!(told.contains("They spoke of apples.") && told.contains("the third") && !told.contains("the first"));

    let patch = json!({"config": {"historyLimit": 1}}).to_string();
    app.ask("PATCH", "/threads/t1").typed("application/merge-patch+json", &patch).send().await.expect(200);
    app.finish("t1", "the fourth").await;
    let [summing, told] = &prompts(&mut wire, 2).await[..] else { unreachable!() };
    assert!(summing.contains("They spoke of apples.") && summing.contains("the third"), "{summing}");
    assert!(told.contains("Apples, and then pears.") && !told.contains("the third"), "{told}");

    let mut shown = call_prompt::prompts(&app, "t1").await;
    shown.retain(|prompt| prompt.get("exact").is_some());
    assert_eq!(shown.len(), 6, "{shown:#?}");
    are_exact(&shown);
}

#[tokio::test]
async fn a_run_that_begins_is_not_told_what_still_waits() {
    let go = Arc::new(Notify::new());
    let first = [vec![Step::Until(go.clone())], answers("one")].concat();
    let (app, mut wire) = start(vec![first, answers("two"), answers("three")]).await;
    let patch = json!({"config": {"historyLimit": 2}}).to_string();
    app.ask("PATCH", "/threads/t1").typed("application/merge-patch+json", &patch).send().await.expect(200);
    let mut last = Value::Null;
    for query in ["the first", "the second", "the third"] {
        last = app.post("/threads/t1/process", json!({"query": query})).await.expect(202);
    }
    go.notify_one();
    app.get(&format!("/runs/{}?wait=20", last["runId"].as_str().unwrap())).await.expect(200);
    let told = prompts(&mut wire, 3).await;
    assert!(told[1].contains("the second") && !told[1].contains("the third"), "{}", told[1]);
    assert!(told[1].contains("the first") && told[1].contains("one"), "as many as the limit says: {}", told[1]);
    assert!(told[2].contains("the second") && told[2].contains("two") && told[2].contains("the third"));
}
