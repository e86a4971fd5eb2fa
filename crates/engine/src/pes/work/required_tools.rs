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
    let mut refused: BTreeMap<&str, (CallCode, &str)> = BTreeMap::new();
    let perhaps_done: BTreeMap<String, Option<ToolError>> =
        state.calls_with_unknown_effect(item).map(error_of).collect();
    let mut erred = perhaps_done.clone();
    for call in state.calls_of(item) {
        let Some(result) = &call.result else { continue };
        let refusal = result.error.as_ref().and_then(|error| Some((error.refusal()?, error.message.as_str())));
        match (result.status, refusal) {
            (ToolStatus::Success, _) => _ = called.insert(call.tool_name.clone()),
            (ToolStatus::Error | ToolStatus::Skipped, Some(refusal)) => _ = refused.insert(&call.tool_name, refusal),
            (ToolStatus::Error, None) => {
                let (tool, error) = error_of(call);
                erred.insert(tool, error);
            }
            (ToolStatus::Skipped, None) => {}
        }
    }
    let required = &item.def.required_tools;
    let missing: Vec<String> = required.iter().filter(|tool| !called.contains(*tool)).cloned().collect();
    if required.is_empty() {
        return RequiredTools::Passed(None);
    }
    if missing.is_empty() {
        return RequiredTools::Passed(Some(ValidationStatus::Passed));
    }
    let open: Vec<String> = missing.iter().filter(|tool| !refused.contains_key(tool.as_str())).cloned().collect();
    let again: Vec<String> = open.iter().filter(|tool| !perhaps_done.contains_key(*tool)).cloned().collect();
    let enforced = item.progress.work.as_ref().map_or(0, |work| work.enforcements);
    let is_strict = item.def.tool_validation_mode.unwrap_or(ToolValidationMode::Strict) == ToolValidationMode::Strict;
    match (open.is_empty(), is_strict) {
        (true, _) => {
            let (code, why) = why_refused(&missing, &refused);
            RequiredTools::Failed(code.as_str(), why)
        }
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

/// The code and the reasons of the refusals of these tools, each of which was refused.
fn why_refused(missing: &[String], refused: &BTreeMap<&str, (CallCode, &str)>) -> (CallCode, String) {
    let of_missing: Vec<(&String, &(CallCode, &str))> =
        missing.iter().filter_map(|tool| Some((tool, refused.get(tool.as_str())?))).collect();
    let code = of_missing.first().map_or(CallCode::Rejected, |(_, (code, _))| *code);
    let why = of_missing.into_iter().map(|(tool, (_, why))| format!("{tool} was not carried out: {why}"));
    (code, why.collect::<Vec<_>>().join("; "))
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
