//! Allocations of a run of eight model calls, and of each token of a streamed answer.

use pes::{AgentProps, Instance};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::sockets::{hear, open};
use super::{allocations, alone, assert_near, counted};
use crate::support::app::App;
use crate::support::demo;
use crate::support::store::fresh_store;
use crate::support::wire::{Step, Wire, end, event, event_stream};

const SUMS: &str = include_str!("../support/sums.toml");

#[test]
fn allocations_of_a_run() {
    alone("counts::runs::allocations_of_a_run", async || {
        const RUNS: usize = 20;
        let instance = Instance::build(demo::scripted(SUMS)).store(fresh_store().await).open().await.unwrap();
        let run = async |thread: String| {
            let answer = instance.process(AgentProps::new(thread.as_str(), "Sums")).await.unwrap();
            assert_eq!(answer.metadata.tool_calls, 3);
        };
        // One-time allocations happen here.
        for nth in 0..RUNS {
            run(format!("first-{nth}")).await;
        }
        let region = counted();
        for nth in 0..RUNS {
            run(format!("then-{nth}")).await;
        }
        assert_near(allocations(&region) / RUNS, 3_500, "allocations of a run");
        instance.close().await;
    });
}

/// A streamed reply of these words.
fn said(words: impl IntoIterator<Item = String>) -> Vec<Step> {
    let chunk = |text: String| event(json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    let stop = event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let mut steps = vec![event_stream()];
    steps.extend(words.into_iter().map(chunk));
    steps.extend([stop, end()]);
    steps
}

/// From the model's socket to the reader's. The difference of two answers excludes the rest of a run.
#[test]
fn allocations_of_a_token() {
    alone("counts::runs::allocations_of_a_token", async || {
        const FEW: usize = 1_000;
        const MANY: usize = 3_000;
        let plan = json!({
            "title": "Say", "intent": "Say", "plan": "Say.",
            "todoList": [{ "id": "a", "description": "Think", "stepType": "reasoning" }],
        });
        let words = |count: usize| (0..count).map(|nth| format!("word-{nth:04} "));
        let exchanges = [FEW, FEW, MANY].map(|count| [said([plan.to_string()]), said(words(10)), said(words(count))]);
        let wire = Wire::serve(exchanges.into_iter().flatten().collect()).await;
        let app = App::with(|config| {
            config.models.openai.base_url = Some(wire.url());
            config.models.openai.api_key = Some("sk-test".to_owned().into());
        })
        .await;
        let mut counts = Vec::new();
        for thread in ["first", "few", "many"] {
            app.post("/threads", json!({ "threadId": thread })).await.expect(201);
            let mut socket = open(app.address, thread).await;
            let region = counted();
            app.post(&format!("/threads/{thread}/process"), json!({ "query": "Say" })).await.expect(202);
            let heard = spawn_blocking(move || hear(&mut socket, b"\"status\":\"success\"")).await.unwrap();
            assert!(heard > 10 * FEW, "{heard} bytes");
            counts.push(allocations(&region));
        }
        let each = (counts[2].saturating_sub(counts[1])) * 10 / (MANY - FEW);
        assert_near(each, 48, "allocations of ten tokens");
    });
}
