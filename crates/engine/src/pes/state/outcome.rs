//! The outcome of the active run so far: what settled, what failed, and how that is reported.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::domain::model::Phase;
use crate::domain::payload;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{ResultStatus, RunError, RunFailure};
use crate::domain::tool::{CallCode, CallRecord, ToolError, ToolStatus};
use crate::pes::state::{Item, State, text};

/// How many failures a result lists.
const MAX_LISTED_FAILURES: usize = 50;
const MAX_MESSAGE_CHARS: usize = 500;

impl State {
    /// In list order. Last come, always and in addition, what was left undone without an item, and the error that ended
    /// the run.
    pub(crate) fn failures(&self, error: Option<&RunError>) -> Vec<RunFailure> {
        let of_items = self.settled_now().flat_map(|item| {
            let of_tools = self.last_errors(item).into_iter().map(|call| of_call(item, call));
            of_tools.chain(of_item(item))
        });
        let cut =
            |failure: RunFailure| RunFailure { message: text::cut(&failure.message, MAX_MESSAGE_CHARS), ..failure };
        let mut failures: Vec<RunFailure> = of_items.map(cut).take(MAX_LISTED_FAILURES).collect();
        failures.extend(self.undone_without_item().chain(error).map(RunFailure::from).map(cut));
        failures
    }

    /// Why a message that arrived during the run was not considered by any planner, and new items were left out.
    fn undone_without_item(&self) -> impl Iterator<Item = &RunError> {
        let active = self.head.active.iter();
        active.flat_map(|active| active.unconsidered.iter().chain(&active.left_out))
    }

    /// For each tool the last call of it in this item, if that was an error. What people or policies refused is no
    /// error, and nor is, in a completed item, the call of a tool that does not exist or is off: no later call of that
    /// tool could have succeeded.
    pub(crate) fn last_errors<'a>(&'a self, item: &'a Item) -> Vec<&'a CallRecord> {
        let run = &self.active_run().run_id;
        let calls = item.calls.iter().filter_map(|id| self.calls.get(id)).map(|call| &call.record);
        let ended = calls.filter(|record| record.run_id == *run && record.result.is_some());
        let last: BTreeMap<&str, &CallRecord> = ended.map(|record| (record.tool_name.as_str(), record)).collect();
        let is_completed = item.progress.status == ItemStatus::Completed;
        last.into_values().filter(|record| is_error(record) && !(is_completed && names_no_tool(record))).collect()
    }

    /// An answer that replaces the model's: what happened, and the result of each item.
    pub(crate) fn account(&self, what_happened: &str) -> String {
        let mut text = format!("{what_happened}\n\nThis is what was done:\n");
        for item in self.settled_now() {
            let word = item.progress.status.word();
            text.push_str(&format!("\n- {}: {word}", item.def.description));
            if let Some(reason) = &item.progress.reason {
                text.push_str(&format!(" ({reason})"));
            }
            if let Some(result) = result_words(item) {
                text.push_str(&format!(" — {result}"));
            }
        }
        text
    }

    /// Items that settled in this run.
    pub(crate) fn settled_now(&self) -> impl Iterator<Item = &Item> {
        let run = &self.active_run().run_id;
        let list = self.list.iter();
        list.filter(move |item| item.progress.run.as_ref() == Some(run) && item.progress.status.is_settled())
    }

    /// Whether nothing of the active run's plans was carried out, nor is under way. A step that was cancelled may have made
    /// calls before.
    pub(crate) fn is_nothing_done(&self) -> bool {
        let is_undone = |item: &Item| item.progress.status == ItemStatus::Cancelled && item.calls.is_empty();
        !self.list.is_any_open() && self.settled_now().all(is_undone)
    }

    /// `partial`: an item failed or was cancelled other than by an edit, a tool's last call in an item was an error, no
    /// planner considered a message that arrived during the run, or new items were left out because the plan was full.
    pub(crate) fn result_status(&self) -> ResultStatus {
        let is_whole = self.settled_now().all(|item| match item.progress.status {
            ItemStatus::Completed => self.last_errors(item).is_empty(),
            ItemStatus::Cancelled => item.progress.edited_away,
            ItemStatus::Failed | ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => false,
        });
        let is_success = is_whole && self.undone_without_item().next().is_none();
        if is_success { ResultStatus::Success } else { ResultStatus::Partial }
    }
}

/// An item's result in words, as far as it is in memory.
fn result_words(item: &Item) -> Option<Cow<'_, str>> {
    let progress = &item.progress;
    match (progress.result.as_ref()?, &progress.excerpt) {
        (_, Some(excerpt)) => Some(excerpt.into()),
        (Value::Null, None) => None,
        (Value::String(text), None) => Some(text.into()),
        (result, None) if payload::reference(result).is_some() => Some("its result stands with the item".into()),
        (result, None) => Some(result.to_string().into()),
    }
}

fn is_error(record: &CallRecord) -> bool {
    record.result.as_ref().is_some_and(|result| {
        result.status == ToolStatus::Error && !result.error.as_ref().is_some_and(ToolError::is_refusal)
    })
}

/// The call named a tool that does not exist or is off.
fn names_no_tool(record: &CallRecord) -> bool {
    let error = record.result.as_ref().and_then(|result| result.error.as_ref());
    error.is_some_and(|error| error.has(CallCode::UnknownTool) || error.has(CallCode::DisabledTool))
}

fn of_call(item: &Item, call: &CallRecord) -> RunFailure {
    let error = call.result.as_ref().and_then(|result| result.error.clone());
    let (code, message) = error.map_or_else(Default::default, |error| (error.code, error.message));
    RunFailure {
        phase: Phase::Execution,
        code,
        message,
        item_id: Some(item.def.id.clone()),
        call_id: Some(call.call_id.clone()),
        tool_name: Some(call.tool_name.clone()),
    }
}

/// An item's reason is a code and a message, or one of a few fixed texts.
fn of_item(item: &Item) -> Option<RunFailure> {
    let reason = item.progress.reason.clone().unwrap_or_default();
    let (code, message) = match item.progress.status {
        ItemStatus::Failed => match reason.split_once(": ") {
            Some((code, message)) => (code.to_owned(), message.to_owned()),
            None => (reason.clone(), reason),
        },
        ItemStatus::Cancelled if !item.progress.edited_away => (CallCode::Cancelled.into(), reason),
        ItemStatus::Cancelled
        | ItemStatus::Completed
        | ItemStatus::Pending
        | ItemStatus::InProgress
        | ItemStatus::Waiting => return None,
    };
    let item_id = Some(item.def.id.clone());
    Some(RunFailure { phase: Phase::Execution, code, message, item_id, call_id: None, tool_name: None })
}
