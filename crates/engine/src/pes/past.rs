//! Reconstructs a past model call as a state in which it is running again, so that the code that rendered its prompt
//! can render it once more. No event is decided on such a state.
//!
//! It lacks what neither the log nor the rows hold: the planner's or synthesizer's reply that was to be repaired, notes
//! to a planner, and that a prompt had to be made shorter. A comparison of digests shows such differences.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::domain::ids::{CallId, ItemId};
use crate::domain::model;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::run::{Counters, Run};
use crate::domain::thread::AgentState;
use crate::domain::tool::CallRecord;
use crate::pes::plan::redo;
use crate::pes::run::fork;
use crate::pes::state::{
    Active, Call, Head, Item, ItemLoop, ModelCall, ModelSlot, RunPhase, Shape, State, Steer, SummaryRequest, TodoList,
    Turn, TurnContent, UnreadableParts,
};
use crate::prompt;
use crate::simple::SimpleCore;
use crate::step::{Row, RowKind};
use crate::{PastCall, SummaryExtent};

pub(crate) fn state(shape: Shape, simple: Option<Arc<dyn SimpleCore>>, past: PastCall) -> State {
    let call = model_call(&past);
    let phase = phase(&past);
    let PastCall { thread_id, run, item, plan, summary, steers, replies, rows, .. } = past;
    let mut known = StoredRows::of(&rows);
    let mut calls = BTreeMap::new();
    let version = plan.plan_version;
    let mut items: Vec<Item> = Vec::with_capacity(plan.todo_list.len());
    for (at, todo) in plan.todo_list.into_iter().enumerate() {
        let ids = known.take_calls(&todo, &mut calls);
        items.push(fork::item_of(at as i64, todo, ids, version));
    }
    if let Some(id) = &item {
        let turns = known.turns_before(id, &run, &calls, replies);
        if let Some(own) = items.iter_mut().find(|other| other.def.id == *id) {
            begin(own, call.clone(), turns);
            if shape == Shape::Single {
                // The log has only the status changes of such an item.
                own.def.description = run.query.to_string();
            }
        }
    }
    let active = Active {
        model: item.is_none().then_some(call),
        steers: steers
            .into_iter()
            .map(|message| Steer { shown: true, ..Steer::new(message.message_id, message.content) })
            .collect(),
        ..Active::begin(run.run_id.clone(), 0, Counters::default())
    };
    let head = Head {
        phase,
        intent: plan.intent,
        title: plan.title,
        plan: plan.plan,
        plan_version: version,
        // Whether there are earlier messages is left to the store.
        history_bytes: u64::MAX,
        summary,
        active: Some(active),
        ..Head::default()
    };
    let mut state = State {
        shape,
        simple,
        thread_id,
        head,
        run: Some(run),
        queued: BTreeMap::new(),
        list: TodoList::new(items),
        calls,
        tasks: BTreeMap::new(),
        suspensions: BTreeMap::new(),
        agent_state: AgentState::default(),
        removed: BTreeMap::new(),
        last_seq: plan.last_seq,
        unreadable: UnreadableParts::default(),
    };
    item.iter().for_each(|id| add_notes(&mut state, id));
    state
}

fn model_call(past: &PastCall) -> ModelCall {
    let begun = &past.begun;
    let asked = (begun.provider.as_str(), begun.model.as_str());
    let choices = (0..).map_while(|choice| Some((choice, past.run.settings.choice(choice)?)));
    let choice = choices.into_iter().find(|(_, choice)| *choice == asked).map_or(0, |(choice, _)| choice);
    let ready = ModelCall::ready(begun.iteration.unwrap_or(1), past.plan.plan_version);
    let extent = |upto| SummaryExtent { upto, messages: 0, bytes: 0 };
    let sums = begun.purpose.map(|_| past.sums_upto.clone().unwrap_or_else(|| "".into()));
    ModelCall {
        slot: ModelSlot::Running { epoch: 0, stream: begun.stream_id.clone() },
        attempt: begun.attempt,
        choice,
        sums: sums.map(|upto| SummaryRequest { extent: extent(upto), before: Box::new(ready.clone()) }),
        may_leave_out: past.is_cut,
        ..ready
    }
}

fn phase(past: &PastCall) -> RunPhase {
    match past.begun.phase {
        model::Phase::Execution => RunPhase::Executing,
        model::Phase::Synthesis => RunPhase::Synthesizing,
        model::Phase::Planning if past.plan.todo_list.is_empty() => RunPhase::Planning,
        model::Phase::Planning => RunPhase::Refining,
    }
}

/// The stored calls and turns.
struct StoredRows {
    calls: HashMap<CallId, (i64, CallRecord)>,
    turns: BTreeMap<i64, Turn>,
}

impl StoredRows {
    fn of(rows: &[Row]) -> Self {
        let calls = rows.iter().filter(|row| row.kind == RowKind::Call);
        let turns = rows.iter().filter(|row| row.kind == RowKind::Turn);
        Self {
            calls: calls
                .filter_map(|row| serde_json::from_str::<CallRecord>(&row.body).ok().map(|record| (row.ord, record)))
                .map(|(ord, record)| (record.call_id.clone(), (ord, record)))
                .collect(),
            turns: turns.filter_map(|row| Some((row.ord, serde_json::from_str(&row.body).ok()?))).collect(),
        }
    }

    /// Takes the item's calls as they were then: a result that came later is left out.
    fn take_calls(&mut self, todo: &TodoItem, calls: &mut BTreeMap<CallId, Call>) -> Vec<CallId> {
        let mut ids = Vec::with_capacity(todo.tool_calls.len());
        for id in todo.tool_calls.iter().map(|called| &called.call_id) {
            let Some((ord, record)) = self.calls.remove(id) else { continue };
            let result = todo.tool_results.iter().find(|result| result.call_id == *id).cloned();
            calls.insert(id.clone(), Call { ord, record: CallRecord { result, ..record } });
            ids.push(id.clone());
        }
        ids
    }

    /// The item's turns of this run up to then. A turn with calls belongs to it if the calls were made by then, a turn
    /// without calls if its text is among the replies.
    fn turns_before(
        &mut self,
        id: &ItemId,
        run: &Run,
        calls: &BTreeMap<CallId, Call>,
        mut replies: Vec<Value>,
    ) -> Vec<Turn> {
        let of_run: BTreeSet<&CallId> =
            calls.iter().filter(|(_, call)| call.record.run_id == run.run_id).map(|(id, _)| id).collect();
        let mut was_replied = |text: &Value| {
            let place = replies.iter().position(|reply| reply == text);
            place.map(|at| replies.remove(at)).is_some()
        };
        let is_of_another = |turn: &Turn| match &turn.content {
            TurnContent::Model { calls: made, .. } => {
                made.iter().any(|id| calls.contains_key(id) && !of_run.contains(id))
            }
            TurnContent::Engine { .. } | TurnContent::Patch { .. } => false,
        };
        let own = std::mem::take(&mut self.turns).into_values().filter(|turn| turn.item == *id);
        let of_run_alone = own.skip_while(is_of_another);
        of_run_alone
            .take_while(|turn| match &turn.content {
                TurnContent::Model { text, calls, .. } if calls.is_empty() => was_replied(text),
                TurnContent::Model { text, calls, .. } => {
                    was_replied(text);
                    calls.iter().all(|id| of_run.contains(id))
                }
                TurnContent::Engine { .. } | TurnContent::Patch { .. } => true,
            })
            .collect()
    }
}

/// Puts the item in progress, with this call in flight.
fn begin(item: &mut Item, call: ModelCall, turns: Vec<Turn>) {
    let enforcements = turns.iter().filter(|turn| is_enforcement(turn)).count() as u32;
    item.turns = turns;
    item.progress.status = ItemStatus::InProgress;
    // Calls that no turn shows belong to an earlier attempt.
    let first_ord = i64::MAX;
    item.progress.work = Some(ItemLoop {
        iteration: call.iteration,
        enforcements,
        model: Some(call),
        has_permit: true,
        first_ord,
        ..ItemLoop::default()
    });
}

fn is_enforcement(turn: &Turn) -> bool {
    match &turn.content {
        TurnContent::Engine { text } => prompt::is_enforcement(text),
        TurnContent::Model { .. } | TurnContent::Patch { .. } => false,
    }
}

/// Adds the notes that the first prompts of an item contain when it is done again.
fn add_notes(state: &mut State, id: &ItemId) {
    let notes = redo::notes(state, id);
    let item = state.list.get_mut(id);
    if let Some(work) = item.filter(|item| item.turns.is_empty()).and_then(|item| item.progress.work.as_mut()) {
        work.notes = notes;
    }
}
