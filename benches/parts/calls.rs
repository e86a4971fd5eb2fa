//! The eight model calls: the plan, for each of three items one call before and one after its tool call, and the answer.

use std::sync::Arc;

use futures_util::StreamExt;
use pes::config;
use pes::domain::model::{Delta, ModelRequest, Phase};
use pes::domain::prompt::{PromptCall, PromptMessage};
use pes::domain::tool::{ToolClass, ToolSpec};
use pes::provider::{Catalog, ChatModel, Models};
use serde_json::{Map, json};

/// Size of a system prompt.
const BYTES: usize = 4_000;
/// Text by which the scripted model recognises the phase.
const STAGES: [(&str, Phase); 3] = [
    ("You plan how to answer", Phase::Planning),
    ("You work on one item of a plan", Phase::Execution),
    ("The plan has been carried out.", Phase::Synthesis),
];
const PLAN: &str = "Multiply three times, bed(items=3 tool=calculator tokens=4 delay=0 round=0)";
const ITEM: &str = "Multiply, step(items=0 tool=calculator tokens=4 delay=0 round=0)";

pub fn model(address: &str) -> Arc<dyn ChatModel> {
    let mut models =
        config::Models { choice: vec!["openai:bed".parse().expect("provider:model")], ..Default::default() };
    models.openai.base_url = Some(format!("http://{address}/v1"));
    let models = Models::new(&models).expect("what it is given is complete");
    models.model("openai").expect("it was chosen")
}

pub async fn make(model: &dyn ChatModel) {
    let [plan, item, answer] = STAGES;
    call(model, plan, PLAN, Vec::new()).await;
    for _ in 0..3 {
        call(model, item, ITEM, Vec::new()).await;
        call(model, item, ITEM, found()).await;
    }
    call(model, answer, PLAN, Vec::new()).await;
}

async fn call(model: &dyn ChatModel, (stage, phase): (&str, Phase), query: &str, found: Vec<PromptMessage>) {
    let system = PromptMessage::System { content: format!("{stage} {}", "x".repeat(BYTES)) };
    let user = PromptMessage::User { content: query.to_owned() };
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "bed".to_owned(),
        phase,
        messages: [system, user].into_iter().chain(found).collect(),
        tools: if phase == Phase::Execution { vec![calculator()] } else { Vec::new() },
        response_schema: None,
        params: Map::new(),
        trace_id: String::new(),
        trace: Default::default(),
        context: Default::default(),
    };
    let mut deltas = model.call(request).await.expect("the model answers");
    let mut is_whole = false;
    while let Some(delta) = deltas.next().await {
        is_whole = matches!(delta.expect("it does not fail"), Delta::Stop(_));
    }
    assert!(is_whole, "an answer broke off");
}

/// The tool call and its result.
fn found() -> Vec<PromptMessage> {
    let (id, name) = ("call_1".to_owned(), "calculator".to_owned());
    let call = PromptCall { id: id.clone(), name: name.clone(), arguments: json!({ "expression": "6 * 7" }) };
    let content = json!({ "expression": "6 * 7", "result": 42 }).to_string();
    vec![
        PromptMessage::Assistant { content: String::new(), tool_calls: vec![call], replay: None },
        PromptMessage::Tool { tool_call_id: id, name, content },
    ]
}

fn calculator() -> Arc<ToolSpec> {
    let expression = json!({ "type": "string", "description": "For example 6 * 7" });
    Arc::new(
        ToolSpec::new(
            "calculator",
            "Calculates an arithmetic expression.",
            ToolClass::Read,
            json!({ "type": "object", "properties": { "expression": expression }, "required": ["expression"] }),
        )
        .with_timeout_ms(1_000),
    )
}
