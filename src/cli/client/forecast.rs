//! What a plan may do, in words: each open item, uncut, with the policy's decision on its tools.

use serde_json::json;

use super::plan_view::consequence;
use super::show::line;
use crate::domain::forecast::{ItemForecast, PlanForecast, ToolForecast};
use crate::domain::settings::PolicyAction;

/// Two lines for each open item. If one may call any tool, the tools are listed below.
pub(super) fn lines(plan: &PlanForecast) -> Vec<String> {
    let open = || plan.items.iter().filter(|item| !item.status.is_settled());
    let mut lines: Vec<String> = open().flat_map(|item| of_item(item, &plan.tools)).collect();
    if open().any(|item| item.may_call_any) {
        lines.push("any tool is one of these:".to_owned());
        lines.extend(plan.tools.iter().map(|tool| format!("    {}", of_tool(tool, tool.policy.action))));
    }
    lines
}

fn of_item(item: &ItemForecast, tools: &[ToolForecast]) -> [String; 2] {
    let named = item.may_call.iter().map(|call| match tools.iter().find(|tool| tool.tool_name == call.tool_name) {
        // A repeated item may ask even if the policy allows the call.
        Some(tool) => of_tool(tool, call.action.unwrap_or(tool.policy.action)),
        None => line(&call.tool_name),
    });
    let calls: Vec<String> = named.chain(item.may_call_any.then(|| "any tool".to_owned())).collect();
    let calls = if calls.is_empty() { "no tool".to_owned() } else { calls.join("; ") };
    [format!("{}  {}", line(item.id.as_str()), line(&item.description)), format!("    {calls}")]
}

fn of_tool(tool: &ToolForecast, action: PolicyAction) -> String {
    let action = json!(action).as_str().unwrap_or_default().to_owned();
    let when = if tool.conditions.is_empty() { "" } else { ", other rules under conditions" };
    let comes_of_it = consequence(tool.class).map(|words| format!(", {words}")).unwrap_or_default();
    format!("{}: {action} ({}{when}){comes_of_it}", line(&tool.tool_name), line(&tool.policy.rule))
}
