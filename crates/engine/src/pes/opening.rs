//! What the prompt of an item's step began with, kept once when its first question to a person opens: who answers sees what
//! the model was told. The results that it was told stand with the items that they are of.

use serde_json::{Value, json};

use super::offer::tools_of_step;
use super::record::to_value;
use super::state::{Item, Shape, State};
use super::tx::Tx;
use super::view;
use crate::domain::ids::{ItemId, SuspensionId};
use crate::prompt::{self, Frame, StepPrompt};

/// Nothing happens if it is kept already.
pub(super) fn keep(tx: &mut Tx<'_>, id: &ItemId, suspension: &SuspensionId) {
    let open = |item: &&Item| item.progress.work.as_ref().is_some_and(|work| work.system.is_none());
    let Some(item) = tx.state.item(id).filter(open) else { return };
    let run = tx.state.active_run();
    let tools = tools_of_step(tx.state, item, tx.world.tools.offered(&run.settings));
    let prompt = StepPrompt {
        frame: Frame { settings: &run.settings, seed: run.run_id.as_str() },
        item: &view::todo_item(item),
        results: &[],
        tools: &tools,
        turns: &[],
        notes: &[],
        is_last: false,
    };
    let (system, task) = prompt::opening(&prompt, tx.state.shape == Shape::Single);
    let system = tx.store(format!("{suspension}.system"), Value::String(system));
    let task = tx.store(format!("{suspension}.task"), Value::String(task));
    tx.change_loop(id, |work| (work.system, work.task) = (Some(system), Some(task)));
}

/// It as messages: the system prompt, what the items came to that this one depends on, and the task.
pub(super) fn opening(state: &State, item: &Item) -> Vec<Value> {
    let work = item.progress.work.as_ref();
    let Some((system, task)) = work.and_then(|work| work.system.as_ref().zip(work.task.as_ref())) else {
        return Vec::new();
    };
    let needs = item.def.dependencies.iter().filter_map(|id| state.item(id));
    let context = needs
        .filter(|need| need.progress.status.is_settled())
        .map(|need| json!({ "role": "user", "name": "context", "content": to_value(&view::step_output(state, need)) }));
    let mut messages = vec![json!({ "role": "system", "content": system })];
    messages.extend(context);
    messages.push(json!({ "role": "user", "content": task }));
    messages
}
