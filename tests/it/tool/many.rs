//! Two hundred tools: a prompt carries those that a step needs.

use std::sync::Arc;

use pes::domain::ids::TenantPk;
use pes::domain::prompt::PromptMessage;
use pes::domain::tool::ToolSpec;
use pes::engine::Toolbox;
use pes::engine::prompt::{Frame, History, PlanPrompt, plan};
use serde_json::json;

use super::settings;
use super::sources::{Shelf, registry, tool};

const MANY: usize = 200;

fn schema() -> serde_json::Value {
    json!({ "type": "object", "properties": { "query": { "type": "string", "description": "x".repeat(1_000) } } })
}

#[tokio::test]
async fn a_planner_with_very_many_tools_is_told_their_names_and_one_line_of_each() {
    let shelf = Arc::new(Shelf::default());
    let registry = registry(std::slice::from_ref(&shelf));
    shelf.put(1, (0..MANY).map(|n| tool(&format!("shop__find_{n}"), schema())).collect());
    let settings = settings(None, &[]);
    let offered: Vec<Arc<ToolSpec>> = registry.toolset(TenantPk(1)).await.offered(&settings);
    let frame = Frame { settings: &settings, seed: "run_1" };
    let size = |tools: &[Arc<ToolSpec>]| {
        let messages = plan(&PlanPrompt { frame, query: "Find it", history: History::default(), tools });
        let PromptMessage::System { content } = &messages[0] else { panic!("the first message is the system's") };
        assert!(tools.iter().all(|tool| content.contains(&tool.name)), "none is kept back");
        content.len()
    };
    let (few, all) = (size(&offered[..1]), size(&offered));
    assert!(all < few + MANY * 100, "{all} bytes");
}
