//! Two hundred tools: a prompt carries those that a step needs, and no tool is prepared twice.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use pes::domain::ids::TenantPk;
use pes::domain::prompt::PromptMessage;
use pes::domain::tool::ToolSpec;
use pes::engine::Toolbox;
use pes::engine::prompt::{Frame, History, PlanPrompt, plan};
use serde_json::json;

use super::sources::{Shelf, registry, tool};
use super::{judge, settings};

const MANY: usize = 200;

fn schema() -> serde_json::Value {
    json!({ "type": "object", "properties": { "query": { "type": "string", "description": "x".repeat(1_000) } } })
}

#[test]
fn a_planner_with_very_many_tools_is_told_their_names_and_one_line_of_each() {
    let shelf = Arc::new(Shelf::default());
    let registry = registry(std::slice::from_ref(&shelf));
    shelf.put(1, (0..MANY).map(|n| tool(&format!("shop__find_{n}"), schema())).collect());
    let settings = settings(None, &[]);
    let offered: Vec<Arc<ToolSpec>> = registry.toolset(TenantPk(1)).offered(&settings);
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

#[test]
fn a_schema_is_compiled_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let compiled = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let shelf = Arc::new(Shelf::default());
        let registry = registry(std::slice::from_ref(&shelf));
        let own = count(&compiled.render());
        let mut tools: Vec<_> = (0..MANY).map(|n| tool(&format!("shop__find_{n}"), schema())).collect();
        shelf.put(1, tools.clone());
        for _ in 0..100 {
            judge(&registry.toolset(TenantPk(1)), &settings(None, &[]), "shop__find_7", &json!({}));
        }
        tools.push(tool("shop__one_more", schema()));
        shelf.put(1, tools);
        registry.toolset(TenantPk(1));
        assert_eq!(count(&compiled.render()) - own, MANY as u64 + 1);
    });
}

fn count(rendered: &str) -> u64 {
    let line = rendered.lines().find_map(|line| line.strip_prefix("pes_tool_schemas_compiled_total "));
    line.map_or(0, |number| number.parse().expect("a number"))
}
