//! The forecast of a plan: which tools it may call and what the policy will decide, before it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;
use crate::domain::forecast::{ItemForecast, MayCall, PlanForecast, ToolForecast};
use crate::domain::plan::StepType;
use crate::domain::settings::{PolicyAction, RunSettings};
use crate::pes::state::{Item, State};

/// Asks the policy about the tools that open items may call, once per tool.
pub(crate) fn forecast(state: &State, world: &World<'_>, settings: &RunSettings) -> PlanForecast {
    let open = || state.list.iter().filter(|item| is_open(item));
    let mut names: BTreeSet<&str> = open().flat_map(|item| &item.def.required_tools).map(String::as_str).collect();
    let offered = if open().any(may_call_any) { world.tools.offered(settings) } else { Vec::new() };
    names.extend(offered.iter().map(|tool| tool.name.as_str()));
    let foreseen = |name: &str| world.tools.foresee(&state.thread_id, settings, name);
    let tools: BTreeMap<&str, ToolForecast> =
        names.into_iter().filter_map(|name| Some((name, foreseen(name)?))).collect();
    let items: Vec<ItemForecast> = state.list.iter().map(|item| of_item(state, item, &tools)).collect();
    let asks = |item: &ItemForecast| item.may_call.iter().any(|call| call.action == Some(PolicyAction::Ask));
    let risky = items.iter().any(asks) || tools.values().any(ToolForecast::is_risky);
    PlanForecast { plan_version: state.head.plan_version, risky, items, tools: tools.into_values().collect() }
}

fn is_open(item: &Item) -> bool {
    !item.progress.status.is_settled()
}

/// A step that names no tool is offered all of them, unless it is a reasoning step.
fn may_call_any(item: &Item) -> bool {
    is_open(item) && item.def.required_tools.is_empty() && item.def.step_type != Some(StepType::Reasoning)
}

/// Whether a plan shows that this step may call this tool.
pub(crate) fn shows(item: &Item, tool: &str) -> bool {
    item.def.required_tools.iter().any(|name| name == tool) || may_call_any(item)
}

fn of_item(state: &State, item: &Item, tools: &BTreeMap<&str, ToolForecast>) -> ItemForecast {
    let def = item.def.clone();
    let mut seen = BTreeSet::new();
    let named = item.def.required_tools.iter().filter(|name| is_open(item) && seen.insert(*name));
    let may_call = named.map(|name| {
        let tool = tools.get(name.as_str());
        let is_repeated = item.progress.redone || state.has_earlier_effect(item, name);
        MayCall {
            tool_name: name.clone(),
            action: tool.map(|tool| tool.action_in(is_repeated)),
            class: tool.map(|tool| tool.class),
            conditional: tool.is_some_and(|tool| !tool.conditions.is_empty()),
        }
    });
    ItemForecast {
        may_call: may_call.collect(),
        may_call_any: may_call_any(item),
        id: def.id,
        description: def.description,
        status: item.progress.status,
        dependencies: def.dependencies,
        step_type: def.step_type,
        required_tools: def.required_tools,
        expected_outcome: def.expected_outcome,
        tool_validation_mode: def.tool_validation_mode,
        redone: item.progress.redone,
    }
}
