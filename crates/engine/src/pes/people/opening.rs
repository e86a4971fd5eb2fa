//! The beginning of the prompt of an item's step, stored once when its first question to a person opens: the person who
//! answers sees what the model saw. The results in its prompt are stored with their items.

use serde_json::Value;

use crate::domain::ids::{ItemId, SuspensionId};
use crate::history::view;
use crate::pes::state::{Item, Shape};
use crate::pes::tx::Tx;
use crate::prompt::{self, Frame, StepPrompt, offer};

/// Nothing happens if it is stored already.
pub(crate) fn store(tx: &mut Tx<'_>, id: &ItemId, suspension: &SuspensionId) {
    let open = |item: &&Item| item.progress.work.as_ref().is_some_and(|work| work.system.is_none());
    let Some(item) = tx.state.item(id).filter(open) else { return };
    let run = tx.state.active_run();
    let tools = offer::tools_of_step(tx.state, item, tx.world.tools.offered(&run.settings));
    let prompt = StepPrompt {
        frame: Frame { settings: &run.settings, seed: run.run_id.as_str() },
        item: &view::todo_item(item),
        results: &[],
        left_out: 0,
        tools: &tools,
        turns: &[],
        most_of_own: usize::MAX,
        notes: &[],
        is_last: false,
    };
    let (system, task) = prompt::opening(&prompt, tx.state.shape == Shape::Single);
    let system = tx.store(format!("{suspension}.system"), Value::String(system));
    let task = tx.store(format!("{suspension}.task"), Value::String(task));
    tx.change_loop(id, |work| (work.system, work.task) = (Some(system), Some(task)));
}
