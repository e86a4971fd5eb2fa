//! What failed in a run, for those who read its result.

use super::state::State;
use std::collections::BTreeMap;

use super::record::cut;
use super::required_tools::is_refusal;
use super::state::Item;
use crate::domain::model::Phase;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{RunError, RunFailure};
use crate::domain::tool::{CallRecord, ToolStatus};

/// How many a result lists, and how much of each message.
const LISTED: usize = 50;
const CHARS: usize = 500;

impl State {
    /// In list order; what ended the run comes last, and always.
    pub(super) fn failures(&self, error: Option<&RunError>) -> Vec<RunFailure> {
        let of_items = self.settled_now().flat_map(|item| {
            let of_tools = self.last_errors(item).into_iter().map(|call| of_call(item, call));
            of_tools.chain(of_item(item))
        });
        let cut = |failure: RunFailure| RunFailure { message: cut(&failure.message, CHARS), ..failure };
        let mut failures: Vec<RunFailure> = of_items.map(cut).take(LISTED).collect();
        failures.extend(error.map(RunFailure::from).map(cut));
        failures
    }

    /// The calls that were the last word of their tool in this item, and errors; what people or policies refuse is none.
    pub(super) fn last_errors<'a>(&'a self, item: &'a Item) -> Vec<&'a CallRecord> {
        let run = &self.active_run().run_id;
        let calls = item.calls.iter().filter_map(|id| self.calls.get(id)).map(|call| &call.record);
        let ended = calls.filter(|record| record.run_id == *run && record.result.is_some());
        let last: BTreeMap<&str, &CallRecord> = ended.map(|record| (record.tool_name.as_str(), record)).collect();
        last.into_values().filter(|record| is_error(record)).collect()
    }
}

fn is_error(record: &CallRecord) -> bool {
    record.result.as_ref().is_some_and(|result| {
        let code = result.error.as_ref().map(|error| error.code.as_str());
        result.status == ToolStatus::Error && !is_refusal(code)
    })
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

/// An item's reason is a code and a message, or one of a few words.
fn of_item(item: &Item) -> Option<RunFailure> {
    let reason = item.progress.reason.clone().unwrap_or_default();
    let (code, message) = match item.progress.status {
        ItemStatus::Failed => match reason.split_once(": ") {
            Some((code, message)) => (code.to_owned(), message.to_owned()),
            None => (reason.clone(), reason),
        },
        ItemStatus::Cancelled if !item.progress.edited_away => ("cancelled".to_owned(), reason),
        ItemStatus::Cancelled
        | ItemStatus::Completed
        | ItemStatus::Pending
        | ItemStatus::InProgress
        | ItemStatus::Waiting => return None,
    };
    let item_id = Some(item.def.id.clone());
    Some(RunFailure { phase: Phase::Execution, code, message, item_id, call_id: None, tool_name: None })
}
