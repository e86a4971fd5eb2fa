//! A conversation that is longer than the model reads, over HTTP: summed up once, and the summary is kept.

use pes::config::Facts;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Step, Wire, end, event, event_stream};

fn says(text: &str) -> Vec<Step> {
    let chunk = |delta: Value, reason: Value| event(json!({"choices": [{"delta": delta, "finish_reason": reason}]}));
    vec![event_stream(), chunk(json!({"content": text}), Value::Null), chunk(json!({}), json!("stop")), end()]
}

fn answers(text: &str) -> Vec<Step> {
    says(&json!({"title": "t", "intent": "i", "plan": "p", "answer": text, "todoList": []}).to_string())
}

#[tokio::test]
async fn the_oldest_messages_are_summed_up_once() {
    let long = "a".repeat(3_500);
    let exchanges =
        vec![answers(&long), answers(&long), says("They spoke of apples."), answers("three"), answers("four")];
    let mut wire = Wire::serve(exchanges).await;
    let (url, facts) = (wire.url(), Facts { context_window: Some(3_600), max_output: None });
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        config.models.choice = vec!["openai:small".parse().unwrap()];
        config.models.facts.insert("openai:small".to_owned(), facts);
    })
    .await;
    app.post("/threads", json!({"threadId": "t1", "config": {"enabledTools": []}})).await.expect(201);
    let mut run = Value::Null;
    for query in ["the first", "the second", "the third", "the fourth"] {
        run = app.finish("t1", query).await;
        assert_eq!(run["metadata"]["status"], "success", "{run:#}");
        if query == "the third" {
            assert_eq!(run["metadata"]["llmCalls"], 2, "a summary is a call: {run:#}");
        }
    }
    assert_eq!((&run["response"]["content"], &run["metadata"]["llmCalls"]), (&json!("four"), &json!(1)));

    let mut prompts = Vec::new();
    for _ in 0..5 {
        prompts.push(wire.request().await.body["messages"].to_string());
    }
    assert_eq!(wire.waiting(), 0);
    assert!(prompts[2].contains("Phase: summary") && prompts[2].contains("the first"), "{}", prompts[2]);
    for prompt in &prompts[3..] {
        assert!(prompt.contains("Phase: ") && prompt.contains("They spoke of apples."), "{prompt}");
        assert!(!prompt.contains("the first"), "{prompt}");
    }
    assert!(!prompts[2].contains("the third") && prompts[3].contains("the third"));

    let page = app.get("/threads/t1/events?types=LLM_STREAM_START,LLM_STREAM_METADATA").await.expect(200);
    let items = page["items"].as_array().unwrap();
    let purposes: Vec<&Value> = items.iter().filter(|it| it["content"]["purpose"] == "summary").collect();
    assert_eq!((purposes.len(), &purposes[0]["content"]["phase"]), (1, &json!("planning")));
    let context = &items.last().unwrap()["metadata"]["context"];
    let counted = (context["summarised"].as_u64().unwrap(), context["kept"].as_u64().unwrap());
    assert_eq!((counted.0 + counted.1, &context["shortened"], context.get("leftOut")), (6, &json!(0), None));
    let messages = app.get("/threads/t1/messages").await.expect(200);
    assert_eq!(messages["items"].as_array().unwrap().len(), 8, "people still see all of them");
}
