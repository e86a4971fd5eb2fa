//! Rebuilds the state from what is stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::Loaded;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{CallId, ItemId, MessageId, RunId, TaskId, ThreadId};
use crate::domain::run::{CallerStatus, Counters, Run, RunStatus};
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::tool::CallRecord;
use crate::domain::trace::TraceOrigin;
use crate::pes::state::rows::{StoredItem, Tombstone, VERSION};
use crate::pes::state::{
    Active, Call, Definition, Head, Item, Progress, RunPhase, Shape, State, TodoList, Turn, UnreadableParts,
};
use crate::simple::SimpleCore;
use crate::step::{Row, RowKind};

/// Larger than the number of unloaded rows that can follow the last loaded row.
const MAX_UNLOADED_ROWS: i64 = 1 << 32;

/// The parsed rows, before the state is assembled.
#[derive(Default)]
struct ParsedRows {
    runs: BTreeMap<RunId, (i64, Run)>,
    definitions: Vec<(i64, Definition)>,
    progress: HashMap<ItemId, Progress>,
    calls: BTreeMap<i64, CallRecord>,
    turns: BTreeMap<i64, Turn>,
    suspensions: BTreeMap<i64, Suspension>,
    tasks: BTreeMap<TaskId, (i64, Task)>,
    removed: BTreeMap<ItemId, i64>,
    agent_state: AgentState,
    /// The highest row number.
    last_ord: i64,
    unreadable: UnreadableParts,
}

impl ParsedRows {
    /// A row that cannot be read is remembered by its name. An unreadable run is replaced by a placeholder, so that
    /// there is a run that can be ended.
    fn add_or_name(&mut self, thread_id: &ThreadId, row: Row) {
        self.last_ord = self.last_ord.max(row.ord);
        if self.add(&row).is_ok() {
            return;
        }
        self.unreadable.names.push(format!("{:?} {}", row.kind, row.id));
        if row.kind == RowKind::Run {
            let run = unreadable_run(row.id.as_str().into(), thread_id.clone());
            self.runs.insert(run.run_id.clone(), (row.ord, run));
        } else {
            self.unreadable.rows.push(row);
        }
    }

    fn add(&mut self, row: &Row) -> Result<(), Fault> {
        match row.kind {
            RowKind::Run => {
                let run: Run = read(&row.id, &row.body)?;
                self.runs.insert(run.run_id.clone(), (row.ord, run));
            }
            RowKind::Item => self.add_item(row)?,
            RowKind::Progress => {
                self.progress.insert(row.id.as_str().into(), read(&row.id, &row.body)?);
            }
            RowKind::Call => {
                self.calls.insert(row.ord, read(&row.id, &row.body)?);
            }
            RowKind::Turn => {
                self.turns.insert(row.ord, read(&row.id, &row.body)?);
            }
            RowKind::Suspension => {
                let suspension: Suspension = read(&row.id, &row.body)?;
                if suspension.status == SuspensionStatus::Pending {
                    self.suspensions.insert(row.ord, suspension);
                }
            }
            RowKind::AgentState => self.agent_state = read("agent state", &row.body)?,
            RowKind::Task => {
                self.tasks.insert(row.id.as_str().into(), (row.ord, read(&row.id, &row.body)?));
            }
            RowKind::Message
            | RowKind::Payload
            | RowKind::Usage
            | RowKind::CallerStatus
            | RowKind::Push
            | RowKind::Retention
            | RowKind::ImportedUsage
            | RowKind::Traced
            | RowKind::WaitsToBegin
            | RowKind::PromptWriter => {}
        }
        Ok(())
    }

    fn add_item(&mut self, row: &Row) -> Result<(), Fault> {
        match read(&row.id, &row.body)? {
            StoredItem::Removed(Tombstone { removed, .. }) => _ = self.removed.insert(row.id.as_str().into(), removed),
            StoredItem::Defined(definition) => self.definitions.push((row.ord, *definition)),
        }
        Ok(())
    }

    /// Why this head does not match these rows.
    fn mismatch(&self, head: &Head) -> Option<String> {
        let active = head.active.as_ref().map(|active| &active.run);
        if active.is_some_and(|active| !self.runs.contains_key(active)) {
            return Some("it names a run that is not there".to_owned());
        }
        let is_named = |id: &&RunId| active == Some(*id) || head.queue.contains(id);
        let unnamed = self.runs.keys().find(|id| !is_named(id))?;
        Some(format!("it does not name {unnamed}"))
    }

    /// Rebuilds the head from the rows: the runs show which one was active and which were queued; the rest starts
    /// empty.
    fn rebuild_head(&mut self, why: &str, last_seq: i64) -> Head {
        self.unreadable.names.insert(0, format!("head ({why})"));
        let is_queued = |run: &Run| run.status == RunStatus::Queued;
        let active = self.runs.values().find(|(_, run)| !is_queued(run));
        let active = active.map(|(ord, run)| Active::begin(run.run_id.clone(), *ord, run.counters.clone()));
        let mut queue: Vec<(i64, RunId)> = self.runs.iter().map(|(id, (ord, _))| (*ord, id.clone())).collect();
        queue.retain(|(_, id)| active.as_ref().is_none_or(|active| active.run != *id));
        queue.sort();
        Head {
            phase: if active.is_some() { RunPhase::Executing } else { RunPhase::Idle },
            // Every version of the plan was recorded, so none is higher than the seq.
            plan_version: last_seq,
            ord: self.last_ord + MAX_UNLOADED_ROWS,
            active,
            queue: queue.into_iter().map(|(_, id)| id).collect(),
            ..Head::default()
        }
    }

    fn into_state(mut self, thread_id: ThreadId, mut head: Head, last_seq: i64) -> State {
        let mut run = None;
        if let Some(active) = &head.active
            && let Some((_, mut active_run)) = self.runs.remove(&active.run)
        {
            active_run.counters = active.counters.clone();
            run = Some(active_run);
        }
        head.queue.retain(|id| self.runs.contains_key(id));
        let (items, calls) = self.items();
        State {
            shape: Shape::default(),
            simple: None,
            thread_id,
            head,
            run,
            queued: self.runs,
            list: TodoList::new(items),
            calls,
            tasks: self.tasks,
            suspensions: self.suspensions,
            agent_state: self.agent_state,
            removed: self.removed,
            last_seq,
            unreadable: self.unreadable,
        }
    }

    fn items(&mut self) -> (Vec<Item>, BTreeMap<CallId, Call>) {
        let mut items: Vec<Item> = Vec::with_capacity(self.definitions.len());
        for (ord, def) in std::mem::take(&mut self.definitions) {
            let progress = self.progress.remove(&def.id).unwrap_or_default();
            items.push(Item { ord, def, progress, calls: Vec::new(), turns: Vec::new() });
        }
        let index: HashMap<ItemId, usize> = items.iter().enumerate().map(|(at, i)| (i.def.id.clone(), at)).collect();
        let mut calls = BTreeMap::new();
        for (ord, record) in std::mem::take(&mut self.calls) {
            let place = record.item_id.as_ref().and_then(|id| index.get(id));
            if let Some(at) = place {
                items[*at].calls.push(record.call_id.clone());
                calls.insert(record.call_id.clone(), Call { ord, record });
            }
        }
        for turn in std::mem::take(&mut self.turns).into_values() {
            if let Some(at) = index.get(&turn.item) {
                items[*at].turns.push(turn);
            }
        }
        (items, calls)
    }
}

pub(crate) fn load(shape: Shape, simple: Option<Arc<dyn SimpleCore>>, loaded: Loaded) -> Result<State, Fault> {
    let mut parsed = ParsedRows::default();
    for row in loaded.rows {
        parsed.add_or_name(&loaded.thread_id, row);
    }
    let head = match read_head(&loaded.head) {
        Ok(head) if head.version > VERSION => return Err(damaged("head", "it was written by a newer version")),
        Ok(head) => match parsed.mismatch(&head) {
            None => head,
            Some(why) => parsed.rebuild_head(&why, loaded.last_seq),
        },
        Err(why) => parsed.rebuild_head(&why.to_string(), loaded.last_seq),
    };
    let state = parsed.into_state(loaded.thread_id, head, loaded.last_seq);
    Ok(State { shape, simple, ..state })
}

/// The state of a thread that cannot be rebuilt: its runs and its questions only, so that they can be ended. Any other
/// row may be the cause, and is not loaded again.
pub(crate) fn load_runs(loaded: Loaded) -> State {
    let mut parsed = ParsedRows::default();
    for row in loaded.rows {
        match row.kind {
            RowKind::Run | RowKind::Suspension => parsed.add_or_name(&loaded.thread_id, row),
            RowKind::Item | RowKind::Progress | RowKind::Call | RowKind::Turn | RowKind::Task => {
                parsed.last_ord = parsed.last_ord.max(row.ord);
                parsed.unreadable.rows.push(row);
            }
            RowKind::Message
            | RowKind::Payload
            | RowKind::AgentState
            | RowKind::Usage
            | RowKind::CallerStatus
            | RowKind::Push
            | RowKind::Retention
            | RowKind::ImportedUsage
            | RowKind::Traced
            | RowKind::WaitsToBegin
            | RowKind::PromptWriter => {}
        }
    }
    let head = parsed.rebuild_head("whoever rebuilds the thread crashes", loaded.last_seq);
    parsed.into_state(loaded.thread_id, head, loaded.last_seq)
}

/// A placeholder for a run that is not over and cannot be read.
fn unreadable_run(run_id: RunId, thread_id: ThreadId) -> Run {
    Run {
        run_id,
        thread_id,
        status: RunStatus::Running,
        reason: None,
        message_id: MessageId::from(""),
        query: Arc::default(),
        metadata: None,
        user_id: None,
        session_id: None,
        trace_id: String::new(),
        trace: TraceOrigin::default(),
        requested_by: Vec::new(),
        caller_status: CallerStatus::Running,
        since: 0,
        created_at: 0,
        started_at: None,
        finished_at: None,
        settings: Arc::default(),
        counters: Counters::default(),
        outcome: None,
    }
}

fn read_head(head: &str) -> serde_json::Result<Head> {
    if head.is_empty() { Ok(Head::default()) } else { serde_json::from_str(head) }
}

fn read<T: DeserializeOwned>(what: &str, body: &str) -> Result<T, Fault> {
    serde_json::from_str(body).map_err(|e| damaged(what, &e.to_string()))
}

fn damaged(what: &str, why: &str) -> Fault {
    Fault::new(Code::UnreadableState, format!("The stored thread cannot be read ({what}): {why}."))
}
