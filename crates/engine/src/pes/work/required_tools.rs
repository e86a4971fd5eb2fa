//! Required tools: an item is not done before the tools that it must use have been called successfully. A call of an
//! earlier attempt counts too, unless it only read, or the item was completed since and is done again. The model is not
//! told to call what people refused, nor what may have had its effect already.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::ItemId;
use crate::domain::plan::{ItemCode, ToolValidationMode, ValidationStatus};
use crate::domain::tool::{CallCode, CallRecord, ToolError, ToolStatus};
use crate::pes::state::{ModelCall, State, TurnContent};
use crate::pes::tx::Tx;
use crate::prompt;

/// Whether an item that its model calls done may be completed.
pub(crate) enum RequiredTools {
    Passed(Option<ValidationStatus>),
    /// The model is told that it must call them.
    Enforce(String),
    /// The item fails with this error code and reason.
    Failed(&'static str, String),
}

/// Checks which required tools of an item have not been called successfully yet.
pub(crate) fn check(state: &State, id: &ItemId) -> RequiredTools {
    let Some(item) = state.item(id) else { return RequiredTools::Passed(None) };
    // Enforcing these again would make their effects happen twice.
    let mut called: BTreeSet<String> = state.earlier_effective_calls(item).map(|call| call.tool_name.clone()).collect();
    let mut refused = BTreeSet::new();
    let perhaps_done: BTreeMap<String, Option<ToolError>> =
        state.calls_with_unknown_effect(item).map(error_of).collect();
    let mut erred = perhaps_done.clone();
    for call in state.calls_of(item) {
        let Some(result) = &call.result else { continue };
        let is_refusal = result.error.as_ref().is_some_and(ToolError::is_refusal);
        match result.status {
            ToolStatus::Success => called.insert(call.tool_name.clone()),
            ToolStatus::Error | ToolStatus::Skipped if is_refusal => refused.insert(call.tool_name.clone()),
            ToolStatus::Error => {
                let (tool, error) = error_of(call);
                erred.insert(tool, error).is_none()
            }
            ToolStatus::Skipped => false,
        };
    }
    let required = &item.def.required_tools;
    let missing: Vec<String> = required.iter().filter(|tool| !called.contains(*tool)).cloned().collect();
    if required.is_empty() {
        return RequiredTools::Passed(None);
    }
    if missing.is_empty() {
        return RequiredTools::Passed(Some(ValidationStatus::Passed));
    }
    let open: Vec<String> = missing.iter().filter(|tool| !refused.contains(*tool)).cloned().collect();
    let again: Vec<String> = open.iter().filter(|tool| !perhaps_done.contains_key(*tool)).cloned().collect();
    let enforced = item.progress.work.as_ref().map_or(0, |work| work.enforcements);
    let is_strict = item.def.tool_validation_mode.unwrap_or(ToolValidationMode::Strict) == ToolValidationMode::Strict;
    match (open.is_empty(), is_strict) {
        (true, _) => RequiredTools::Failed(CallCode::Rejected.as_str(), format!("refused: {}", missing.join(", "))),
        (false, false) => RequiredTools::Passed(Some(ValidationStatus::Failed)),
        (false, true) if !again.is_empty() && enforced < state.run_settings().execution.taef_max_retries => {
            RequiredTools::Enforce(prompt::enforcement(&again))
        }
        (false, true) => RequiredTools::Failed(ItemCode::RequiredTools.as_str(), why_missing(&open, &erred)),
    }
}

fn error_of(call: &CallRecord) -> (String, Option<ToolError>) {
    (call.tool_name.clone(), call.result.as_ref().and_then(|result| result.error.clone()))
}

/// Asks the model again; this uses up no iteration.
pub(crate) fn enforce(tx: &mut Tx<'_>, id: &ItemId, message: String) {
    let shown = tx.state.head.plan_version;
    tx.add_turn(id, TurnContent::Engine { text: message });
    tx.change_loop(id, |work| {
        work.enforcements += 1;
        work.model = Some(ModelCall::ready(work.iteration, shown));
    });
}

/// Distinguishes a tool that was called and failed from one that was never called.
fn why_missing(open: &[String], erred: &BTreeMap<String, Option<ToolError>>) -> String {
    let (failed, never): (Vec<&String>, Vec<&String>) = open.iter().partition(|tool| erred.contains_key(*tool));
    let failed = failed.into_iter().map(|tool| match &erred[tool] {
        Some(error) => format!("{tool} was called and failed ({}: {})", error.code, error.message),
        None => format!("{tool} was called and failed"),
    });
    let never = never.into_iter().map(|tool| format!("{tool} was not called"));
    format!("required tools did not succeed: {}", failed.chain(never).collect::<Vec<_>>().join("; "))
}
