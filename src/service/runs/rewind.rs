//! Going back to a place in a thread's conversation: what stands behind it, and the plan of then, are looked up here; whether
//! that still holds is decided with the query.

use std::collections::{HashMap, HashSet};

use super::{ProcessAsk, cancel};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, MessageId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::{OnBusy, Run};
use crate::domain::tool::CallRecord;
use crate::engine::event::Rewind;
use crate::engine::history::ShownPlan;
use crate::engine::step::{Row, RowKind};
use crate::runtime::rows::{legible, read};
use crate::service::{Service, feed, fork, threads};
use crate::store::{self, ObservationAsk, PageAsk, ThreadRow};

type Result<T, E = Fault> = std::result::Result<T, E>;

/// Where in its conversation a thread goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContinueAt {
    /// Before everything that was said: it counts no more.
    Start,
    /// After this message: what was said later counts no more.
    After(MessageId),
    /// At its end, which must be this message: if anything was said since, that is refused.
    End(MessageId),
}

/// Rows and observations that are read at once.
const CHUNK: u32 = 500;

/// Messages stand in these.
const TELLING: [ObservationType; 3] =
    [ObservationType::RunStarted, ObservationType::FinalResponse, ObservationType::StateUpdate];

/// A thread with a run goes back only where the caller wants that run to be cancelled.
fn may_cancel(on_busy: OnBusy) -> Result<()> {
    match on_busy {
        OnBusy::Interrupt => Ok(()),
        OnBusy::Enqueue | OnBusy::Steer | OnBusy::Reject => {
            let detail =
                "A run is active, and a thread goes back only without one; wait for it, or set onBusy to interrupt.";
            Err(Fault::new(Code::ThreadBusy, detail))
        }
    }
}

/// What it takes to go on there; `None`: the thread begins. Runs that are in the way are cancelled, after all else that may
/// refuse the query was looked at.
pub(super) async fn of(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    row: Option<&ThreadRow>,
    ask: &ProcessAsk,
) -> Result<Option<Box<Rewind>>> {
    match (&ask.continue_at, row) {
        (None, _) | (Some(ContinueAt::Start), None) => Ok(None),
        (Some(ContinueAt::After(_) | ContinueAt::End(_)), None) => Err(unknown()),
        (Some(at @ (ContinueAt::Start | ContinueAt::After(_))), Some(row)) if !row.status.is_at_rest() => {
            may_cancel(ask.on_busy)?;
            look_up(service, row, at).await?;
            cancel::cancel_thread(service, caller, id, None).await?;
            let row = threads::row(service, caller, id).await?;
            Ok(Some(Box::new(look_up(service, &row, at).await?)))
        }
        (Some(at), Some(row)) => Ok(Some(Box::new(look_up(service, row, at).await?))),
    }
}

/// What it takes to go on after this message.
async fn look_up(service: &Service, row: &ThreadRow, at: &ContinueAt) -> Result<Rewind> {
    let mut said = conversation(service, row.pk).await?;
    let position = |id: &MessageId| said.iter().position(|(_, message)| message.message_id == *id);
    let place = match at {
        ContinueAt::Start => 0,
        ContinueAt::After(id) => 1 + position(id).ok_or_else(unknown)?,
        ContinueAt::End(id) if row.status.is_at_rest() && position(id).is_some_and(|at| at + 1 == said.len()) => {
            said.len()
        }
        ContinueAt::End(_) => {
            let detail = "Something was said on the thread since; look at it again.";
            return Err(Fault::new(Code::PreconditionFailed, detail));
        }
    };
    let superseded = said.split_off(place);
    let mut rewind = Rewind {
        as_of: row.last_seq,
        superseded,
        plan: ShownPlan::default(),
        calls: Vec::new(),
        summary: None,
        said: 0,
        askers: askers(service, row.pk, &said).await?,
    };
    if rewind.superseded.is_empty() {
        return Ok(rewind);
    }
    let seq = fork::within(row, told_at(service, row, &rewind.superseded).await? - 1, "/after")?;
    let fold = feed::fold_to(service, row.pk, seq).await?;
    rewind.summary = fold.summary().cloned();
    rewind.said = bytes_behind(&said, rewind.summary.as_ref().map(|summary| &summary.upto));
    rewind.plan =
        ShownPlan::of(&fold.view()).map_err(|error| store::Error::Damaged(format!("the plan in the log: {error}")))?;
    rewind.calls = calls(service, row.pk, &rewind.plan).await?;
    rewind.askers.extend(askers(service, row.pk, &rewind.superseded).await?);
    Ok(rewind)
}

/// What `after` must be.
fn unknown() -> Fault {
    let how = "must be `start`, or the id of a message of this thread's conversation";
    Fault::new(Code::Invalid, format!("`after` {how}.")).at("/after", how)
}

async fn conversation(service: &Service, pk: ThreadPk) -> Result<Vec<(i64, ConversationMessage)>> {
    let (mut said, mut page) = (Vec::new(), PageAsk { limit: CHUNK, ..PageAsk::default() });
    loop {
        let found = service.reads.messages(pk, &page).await?;
        let rows: &[Row] = &found.items;
        for row in rows {
            said.push((row.ord, read(row)?));
        }
        match found.next_cursor {
            Some(cursor) => page.cursor = Some(cursor),
            None => return Ok(said),
        }
    }
}

/// The seq of the observation that told the first of these messages, older than the log if that is gone. Those of runs that
/// never began are told only as waiting: they changed no plan.
async fn told_at(service: &Service, row: &ThreadRow, said: &[(i64, ConversationMessage)]) -> Result<i64> {
    let wanted: HashSet<&MessageId> = said.iter().map(|(_, message)| &message.message_id).collect();
    let (mut told, mut waiting) = (HashMap::new(), HashSet::new());
    let mut after = row.min_seq - 1;
    loop {
        let ask = ObservationAsk { after, limit: CHUNK, types: TELLING.to_vec(), ..ObservationAsk::default() };
        let seen = service.reads.observations(row.pk, &ask).await?;
        for one in &seen {
            after = one.seq;
            let Telling { ids, waits } = telling(one);
            for id in ids.into_iter().filter(|id| wanted.contains(id)) {
                if waits {
                    waiting.insert(id);
                } else {
                    told.entry(id).or_insert(one.seq);
                }
            }
        }
        let first = said.first().and_then(|(_, first)| told.get(&first.message_id));
        if let Some(seq) = first {
            return Ok(*seq);
        }
        if seen.is_empty() {
            break;
        }
    }
    for (_, message) in said {
        match told.get(&message.message_id) {
            Some(seq) => return Ok(*seq),
            None if waiting.contains(&message.message_id) => {}
            None => return Ok(row.min_seq - 1),
        }
    }
    Ok(row.last_seq + 1)
}

/// The messages that an observation tells.
struct Telling {
    ids: Vec<MessageId>,
    /// Their run waits. They are told again when it begins, which is where they stand.
    waits: bool,
}

fn telling(seen: &Observation) -> Telling {
    let content = &seen.content;
    let many = content["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = many.iter().chain([&content["message"]]).filter_map(|one| one["messageId"].as_str());
    let waits = content["keys"].as_array().is_some_and(|keys| keys.iter().any(|key| key == "queue"));
    Telling { ids: ids.map(MessageId::from).collect(), waits }
}

/// The names of the keys that said any of these, or shaped a run that did.
async fn askers(service: &Service, pk: ThreadPk, said: &[(i64, ConversationMessage)]) -> Result<Vec<String>> {
    let mut runs = HashSet::new();
    let mut wanted = Vec::new();
    for run in said.iter().filter_map(|(_, message)| message.run_id.as_ref()).filter(|run| runs.insert(*run)) {
        wanted.push((pk, RowKind::Run, run.to_string()));
    }
    let mut names: Vec<String> = said.iter().filter_map(|(_, message)| message.requested_by.clone()).collect();
    for wanted in wanted.chunks(CHUNK as usize) {
        let rows = service.reads.rows_by_id(wanted).await?;
        let runs = rows.iter().filter_map(|(_, row)| legible::<Run>(row));
        names.extend(runs.flat_map(|run| run.requested_by));
    }
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// How long the messages after this one are together.
fn bytes_behind(said: &[(i64, ConversationMessage)], told: Option<&MessageId>) -> u64 {
    let first = said.iter().position(|(_, message)| Some(&message.message_id) == told).map_or(0, |at| at + 1);
    let counted = said[first..].iter().filter(|(_, message)| !message.is_error());
    counted.map(|(_, message)| message.content.len() as u64).sum()
}

/// The calls of the plan's settled items.
async fn calls(service: &Service, pk: ThreadPk, plan: &ShownPlan) -> Result<Vec<CallRecord>> {
    let settled = plan.todo_list.iter().filter(|item| item.status.is_settled());
    let ids: Vec<&CallId> = settled.flat_map(|item| &item.tool_calls).map(|call| &call.call_id).collect();
    let wanted: Vec<_> = ids.into_iter().map(|id| (pk, RowKind::Call, id.to_string())).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    Ok(service.reads.rows_by_id(&wanted).await?.iter().filter_map(|(_, row)| legible(row)).collect())
}
