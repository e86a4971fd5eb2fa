//! Checks that the names in a plan exist: its tools are enabled here, its dependencies are items. The model gets one
//! repair that lists the valid names. Items that name unknown ones after that fail before anything is spent on them.

use std::collections::BTreeSet;

use crate::domain::ids::ItemId;
use crate::domain::plan::{ItemStatus, ToolValidationMode};
use crate::parse::ItemDraft;
use crate::pes::plan::change;
use crate::pes::state::{MAX_REPAIRS, ModelCall, State, model_call};
use crate::pes::tx::Tx;

/// How many names a sentence lists.
const MAX_LISTED_NAMES: usize = 100;

/// A sentence for the model that made this plan, if it has unknown names and the model was not told before.
pub(crate) fn unknown(tx: &Tx<'_>, call: &ModelCall, drafts: &[ItemDraft]) -> Option<String> {
    let was_told = call.repair.as_ref().is_some_and(|repair| repair.names);
    if was_told || model_call::repair_rounds(call) >= MAX_REPAIRS {
        return None;
    }
    let open: Vec<&ItemDraft> = drafts.iter().filter(|draft| will_be_done(tx.state, draft)).collect();
    let faults = [unknown_tools(tx, &open), unknown_items(tx.state, &open, drafts)];
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    (!faults.is_empty()).then(|| faults.join(" "))
}

/// Whether this item is still to be carried out; a finished item may name what no longer exists.
fn will_be_done(state: &State, draft: &ItemDraft) -> bool {
    match state.item(&draft.id.as_str().into()).map(|item| item.progress.status) {
        None | Some(ItemStatus::Pending) => change::is_wanted(draft),
        Some(ItemStatus::Completed) => draft.redo,
        Some(ItemStatus::Failed | ItemStatus::Cancelled) => draft.redo || draft.status == Some(ItemStatus::Pending),
        Some(ItemStatus::InProgress | ItemStatus::Waiting) => false,
    }
}

fn unknown_tools(tx: &Tx<'_>, drafts: &[&ItemDraft]) -> Option<String> {
    let named: BTreeSet<&str> =
        drafts.iter().flat_map(|draft| draft.required_tools.iter().flatten()).map(String::as_str).collect();
    if named.is_empty() {
        return None;
    }
    let known = enabled_tools(tx);
    let unknown: Vec<&str> = named.into_iter().filter(|name| !known.contains(*name)).collect();
    (!unknown.is_empty()).then(|| {
        let known = known.iter().map(String::as_str);
        format!("There is no tool {}; requiredTools may only name: {}.", list(unknown), list(known))
    })
}

fn unknown_items(state: &State, open: &[&ItemDraft], drafts: &[ItemDraft]) -> Option<String> {
    let listed = drafts.iter().map(|draft| draft.id.as_str());
    let kept = state.list.iter().map(|item| item.def.id.as_str());
    let known: BTreeSet<&str> = listed.chain(kept).collect();
    let is_unknown = |draft: &ItemDraft, need: &str| {
        // A dependency that the item had before may have been removed: the model copied it and did not invent it.
        let before = state.item(&draft.id.as_str().into()).map(|item| &item.def.dependencies);
        !known.contains(need) && !before.is_some_and(|before| before.iter().any(|known| known.as_str() == need))
    };
    let unknown: BTreeSet<&str> = open
        .iter()
        .flat_map(|draft| draft.dependencies.iter().flatten().map(move |need| (draft, need.as_str())))
        .filter(|(draft, need)| is_unknown(draft, need))
        .map(|(_, need)| need)
        .collect();
    (!unknown.is_empty())
        .then(|| format!("There is no item {}; dependencies may only name: {}.", list(unknown), list(known)))
}

fn enabled_tools(tx: &Tx<'_>) -> BTreeSet<String> {
    tx.world.tools.offered(tx.state.run_settings()).iter().map(|tool| tool.name.clone()).collect()
}

/// A tool that this item must call and that does not exist or is not enabled, so that the item need not begin.
pub(crate) fn missing_tool_of(tx: &Tx<'_>, id: &ItemId) -> Option<String> {
    let def = &tx.state.item(id)?.def;
    if def.required_tools.is_empty() || def.tool_validation_mode == Some(ToolValidationMode::Advisory) {
        return None;
    }
    let known = enabled_tools(tx);
    def.required_tools.iter().find(|tool| !known.contains(*tool)).cloned()
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let more = if names.len() > MAX_LISTED_NAMES { ", …" } else { "" };
    if names.is_empty() { "nothing".to_owned() } else { names[..names.len().min(MAX_LISTED_NAMES)].join(", ") + more }
}
