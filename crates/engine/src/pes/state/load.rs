//! Rebuilding the state from what is stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::Loaded;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{CallId, ItemId, RunId, TaskId, ThreadId};
use crate::domain::run::Run;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::tool::CallRecord;
use crate::pes::state::rows::{StoredItem, Tombstone, VERSION};
use crate::pes::state::{Call, Definition, Head, Item, Progress, Shape, State, TodoList, Turn};
use crate::simple::SimpleCore;
use crate::step::{Row, RowKind};

/// What the rows say, before it is put together.
#[derive(Default)]
struct Gathered {
    runs: BTreeMap<RunId, (i64, Run)>,
    definitions: Vec<(i64, Definition)>,
    progress: HashMap<ItemId, Progress>,
    calls: BTreeMap<i64, CallRecord>,
    turns: BTreeMap<i64, Turn>,
    suspensions: BTreeMap<i64, Suspension>,
    tasks: BTreeMap<TaskId, (i64, Task)>,
    removed: BTreeMap<ItemId, i64>,
    agent_state: AgentState,
    unreadable: Vec<Row>,
}

impl Gathered {
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
            RowKind::Message | RowKind::Payload | RowKind::Usage | RowKind::CallerStatus | RowKind::Push => {}
        }
        Ok(())
    }

    fn add_item(&mut self, row: &Row) -> Result<(), Fault> {
        match read(&row.id, &row.body)? {
            StoredItem::Removed(Tombstone { removed }) => _ = self.removed.insert(row.id.as_str().into(), removed),
            StoredItem::Defined(definition) => self.definitions.push((row.ord, *definition)),
        }
        Ok(())
    }

    fn into_state(mut self, thread_id: ThreadId, mut head: Head, last_seq: i64) -> Result<State, Fault> {
        let mut run = None;
        if let Some(active) = &head.active {
            let (_, mut active_run) =
                self.runs.remove(&active.run).ok_or_else(|| damaged("head", "it names a run that is not there"))?;
            active_run.counters = active.counters.clone();
            run = Some(active_run);
        }
        head.queue.retain(|id| self.runs.contains_key(id));
        let (items, calls) = self.items();
        Ok(State {
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
        })
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
    let head: Head = if loaded.head.is_empty() { Head::default() } else { read("head", &loaded.head)? };
    if head.version > VERSION {
        return Err(damaged("head", "it was written by a newer version"));
    }
    let mut gathered = Gathered::default();
    for row in loaded.rows {
        match gathered.add(&row) {
            // Without its run there is nothing that could be ended by name.
            Err(fault) if row.kind == RowKind::Run => return Err(fault),
            Err(_) => gathered.unreadable.push(row),
            Ok(()) => {}
        }
    }
    let thread_id = loaded.thread_id.unwrap_or_else(|| ThreadId::from(""));
    let state = gathered.into_state(thread_id, head, loaded.last_seq)?;
    Ok(State { shape, simple, ..state })
}

fn read<T: DeserializeOwned>(what: &str, body: &str) -> Result<T, Fault> {
    serde_json::from_str(body).map_err(|e| damaged(what, &e.to_string()))
}

fn damaged(what: &str, why: &str) -> Fault {
    Fault::new(Code::UnreadableState, format!("The stored thread cannot be read ({what}): {why}."))
}
