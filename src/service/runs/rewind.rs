//! Rewinding a thread to an earlier point of its conversation. This module reads the messages after that point and the plan
//! of that time. The decision that accepts the query checks that they are still current.

use std::collections::{HashMap, HashSet};

use super::{ProcessAsk, cancel};
use crate::domain::caller::Caller;
use crate::domain::facts::StateUpdateBody;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::{OnBusy, Run, RunStatus};
use crate::domain::tool::CallRecord;
use crate::engine::event::Rewind;
use crate::engine::history::ShownPlan;
use crate::engine::history::later_calls::calls_of;
use crate::engine::step::RowKind;
use crate::runtime::CommandError;
use crate::runtime::rows::{legible, read};
use crate::service::once::{self, Idempotent};
use crate::service::pages::{Entries, Observations};
use crate::service::{Result, Service, feed, fork, later_calls, threads};
use crate::store::{self, ObservationAsk, PageAsk, ThreadRow};

/// The point in its conversation at which a thread continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContinueAt {
    /// Before the first message: all messages are superseded.
    Start,
    /// After this message: later messages are superseded.
    After(MessageId),
    /// At the end, which must be this message. If later messages exist, the query is refused.
    End(MessageId),
    /// At the end, if the log ends at this `seq`. If anything was recorded since, the query is refused.
    LogEnd(i64),
}

/// Rows and observations that are read at once.
const CHUNK: u32 = 500;

/// The types of observations that contain messages.
const MESSAGE_TYPES: [ObservationType; 3] =
    [ObservationType::RunStarted, ObservationType::FinalResponse, ObservationType::StateUpdate];

/// Refuses to rewind a thread with an active run, unless the caller wants that run to be cancelled.
fn check_may_cancel(on_busy: OnBusy) -> Result<()> {
    match on_busy {
        OnBusy::Interrupt => Ok(()),
        OnBusy::Enqueue | OnBusy::Steer | OnBusy::Reject => {
            let detail =
                "A run is active, and a thread goes back only without one; wait for it, or set onBusy to interrupt.";
            Err(Fault::new(Code::ThreadBusy, detail))
        }
    }
}

/// Prepares the rewind. `None`: there is nothing to rewind. Active runs are cancelled last, after everything else that may
/// refuse the query was checked.
///
/// If another process has accepted this query already, its run must not be cancelled. That run and the response under
/// `key` are one commit: if no response is stored after the runs were read, none of them is the run of this query.
pub(super) async fn of(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    row: Option<&ThreadRow>,
    ask: &ProcessAsk,
    key: Option<&Idempotent>,
) -> Result<Option<Box<Rewind>>, CommandError> {
    match (&ask.continue_at, row) {
        (None, _) | (Some(ContinueAt::Start), None) => Ok(None),
        (Some(ContinueAt::After(_) | ContinueAt::End(_)), None) => Err(unknown().into()),
        (Some(ContinueAt::LogEnd(_)), None) => Err(went_on().into()),
        (Some(at @ (ContinueAt::Start | ContinueAt::After(_))), Some(row)) if !row.status.is_at_rest() => {
            check_may_cancel(ask.on_busy)?;
            prepare(service, row, at).await?;
            let runs = unfinished_runs(service, row.pk).await?;
            let is_named = |run: &UnfinishedRun| matches!(at, ContinueAt::After(id) if run.queued.as_ref() == Some(id));
            if runs.iter().any(is_named) {
                return Err(unknown().into());
            }
            if let Some(key) = key
                && once::is_stored(service, caller, key).await?
            {
                return Err(CommandError::Duplicate);
            }
            for run in &runs {
                cancel_if_unfinished(service, caller, &run.id).await?;
            }
            let row = threads::row(service, caller, id).await?;
            Ok(Some(Box::new(prepare(service, &row, at).await?)))
        }
        (Some(at), Some(row)) => Ok(Some(Box::new(prepare(service, row, at).await?))),
    }
}

struct UnfinishedRun {
    id: RunId,
    /// The message of a queued run, which its cancel takes back.
    queued: Option<MessageId>,
}

/// The active run and the queued ones, which come first: the end of the active run begins none of them.
async fn unfinished_runs(service: &Service, pk: ThreadPk) -> Result<Vec<UnfinishedRun>> {
    let (_, rows) = service.store.load(pk).await?.ok_or_else(|| Fault::not_found("thread"))?;
    let runs = rows.iter().filter(|row| row.kind == RowKind::Run).map(|row| {
        let queued = legible::<Run>(row).filter(|run| run.status == RunStatus::Queued);
        UnfinishedRun { id: row.id.as_str().into(), queued: queued.map(|run| run.message_id) }
    });
    let mut runs: Vec<UnfinishedRun> = runs.collect();
    runs.sort_by_key(|run| run.queued.is_none());
    Ok(runs)
}

async fn cancel_if_unfinished(service: &Service, caller: &Caller, run: &RunId) -> Result<()> {
    match cancel::cancel(service, caller, run, None).await {
        Err(fault) if fault.code == Code::RunFinished => Ok(()),
        cancelled => cancelled.map(drop),
    }
}

/// Reads what a rewind to this point needs.
async fn prepare(service: &Service, row: &ThreadRow, at: &ContinueAt) -> Result<Rewind> {
    let Conversation { kept, superseded } = match at {
        // No message is superseded.
        ContinueAt::LogEnd(_) => Conversation::default(),
        ContinueAt::Start | ContinueAt::After(_) | ContinueAt::End(_) => conversation(service, row.pk, at).await?,
    };
    match at {
        ContinueAt::Start => {}
        ContinueAt::After(id) => _ = kept.last().filter(|last| last.id == *id).ok_or_else(unknown)?,
        ContinueAt::End(id) if row.status.is_at_rest() && kept.last().is_some_and(|last| last.id == *id) => {}
        ContinueAt::LogEnd(seq) if row.last_seq == *seq => {}
        ContinueAt::End(_) | ContinueAt::LogEnd(_) => return Err(went_on()),
    }
    let senders: Vec<&Sender> = kept.iter().map(|message| &message.sender).collect();
    let mut rewind = Rewind {
        as_of: row.last_seq,
        superseded,
        plan: ShownPlan::default(),
        calls: Vec::new(),
        summary: None,
        history_bytes: 0,
        askers: askers(service, row.pk, &senders).await?,
        later: Vec::new(),
    };
    if rewind.superseded.is_empty() {
        return Ok(rewind);
    }
    let last = kept.last().map(|message| &message.id);
    let places = places(service, row, last, &rewind.superseded).await?;
    let seq = fork::within(row, places.superseded - 1, "/after")?;
    let fold = feed::fold_to(service, row.pk, seq).await?;
    rewind.summary = fold.summary().cloned();
    rewind.history_bytes = bytes_after(&kept, rewind.summary.as_ref().map(|summary| &summary.upto));
    rewind.plan = fork::plan_of(&fold.view())?;
    rewind.calls = calls(service, row.pk, &rewind.plan).await?;
    // What the thread asked about at that place, because it had gone back before it, counts as well.
    let since = later_calls::place_gone_back_to(service, row, places.last_kept).await?;
    rewind.later = later_calls::after(service, row, since.unwrap_or(places.last_kept), &rewind.plan).await?;
    let senders: Vec<Sender> = rewind.superseded.iter().map(|(_, message)| Sender::of(message)).collect();
    let senders: Vec<&Sender> = senders.iter().collect();
    rewind.askers.extend(askers(service, row.pk, &senders).await?);
    Ok(rewind)
}

/// The fault for an unknown message id.
fn unknown() -> Fault {
    let how = "must be `start`, or the id of a message of this thread's conversation";
    Fault::new(Code::Invalid, format!("`after` {how}.")).at("/after", how)
}

/// The fault for a thread that does not end where the client saw it end.
fn went_on() -> Fault {
    Fault::new(Code::PreconditionFailed, "Something was said on the thread since; look at it again.")
}

/// A conversation, divided at the point where it is continued.
#[derive(Default)]
struct Conversation {
    kept: Vec<KeptMessage>,
    /// Each with the number of its row.
    superseded: Vec<(i64, ConversationMessage)>,
}

/// A message before that point: without its text, because a conversation may be larger than the memory.
struct KeptMessage {
    id: MessageId,
    sender: Sender,
    bytes: u64,
    is_error: bool,
}

/// Who sent a message, and the run that it is of.
struct Sender {
    name: Option<String>,
    run: Option<RunId>,
}

impl Sender {
    fn of(message: &ConversationMessage) -> Self {
        Self { name: message.requested_by.clone(), run: message.run_id.clone() }
    }
}

/// If the point is after a message that the conversation does not have, all of it is kept.
async fn conversation(service: &Service, pk: ThreadPk, at: &ContinueAt) -> Result<Conversation> {
    let mut rows = Entries::from(PageAsk::first(CHUNK), |page| async move { service.reads.messages(pk, &page).await });
    let (mut divided, mut is_kept) = (Conversation::default(), *at != ContinueAt::Start);
    let mut superseded_bytes = 0;
    while let Some(row) = rows.next().await? {
        let message: ConversationMessage = read(&row)?;
        if !is_kept {
            superseded_bytes += message.approximate_bytes();
            if superseded_bytes > fork::MAX_CONVERSATION_BYTES {
                let how = "must be a later message: more than 64 MiB were said since";
                let detail = format!("`after` {how}, and no more is taken back at once. Or begin a new thread.");
                return Err(Fault::new(Code::Invalid, detail).at("/after", how));
            }
            divided.superseded.push((row.ord, message));
            continue;
        }
        is_kept = !matches!(at, ContinueAt::After(id) if *id == message.message_id);
        divided.kept.push(KeptMessage {
            sender: Sender::of(&message),
            bytes: message.content.len() as u64,
            is_error: message.is_error(),
            id: message.message_id,
        });
    }
    Ok(divided)
}

/// Where messages were recorded; a seq before the log if that part was deleted.
struct Places {
    /// The last message that is kept.
    last_kept: i64,
    /// The first superseded one. Messages of runs that never began are recorded only as queued: they changed no plan.
    superseded: i64,
}

async fn places(
    service: &Service,
    row: &ThreadRow,
    last_kept: Option<&MessageId>,
    superseded: &[(i64, ConversationMessage)],
) -> Result<Places> {
    let wanted: HashSet<&MessageId> = superseded.iter().map(|(_, message)| &message.message_id).collect();
    let first = superseded.first().map(|(_, first)| &first.message_id);
    let before = row.min_seq - 1;
    let mut places = Places { last_kept: before, superseded: before };
    let (mut recorded, mut queued) = (HashMap::new(), HashSet::new());
    let types = MESSAGE_TYPES.to_vec();
    let ask = ObservationAsk { after: before, limit: CHUNK, types, ..ObservationAsk::default() };
    let mut log = Observations::from(&*service.reads, row.pk, ask);
    while let Some(seen) = log.next().await? {
        let RecordedMessages { ids, is_queued } = recorded_messages(&seen);
        // Recorded again when its run begins.
        if last_kept.is_some_and(|last| ids.contains(last)) {
            places.last_kept = seen.seq;
        }
        for id in ids.into_iter().filter(|id| wanted.contains(id)) {
            if is_queued {
                queued.insert(id);
            } else if first == Some(&id) {
                return Ok(Places { superseded: seen.seq, ..places });
            } else {
                recorded.entry(id).or_insert(seen.seq);
            }
        }
    }
    for (_, message) in superseded {
        match recorded.get(&message.message_id) {
            Some(seq) => return Ok(Places { superseded: *seq, ..places }),
            None if queued.contains(&message.message_id) => {}
            None => return Ok(places),
        }
    }
    Ok(Places { superseded: row.last_seq + 1, ..places })
}

/// The messages that an observation records.
struct RecordedMessages {
    ids: Vec<MessageId>,
    /// Their run is queued. They are recorded again when it begins, which is their position in the conversation.
    is_queued: bool,
}

fn recorded_messages(seen: &Observation) -> RecordedMessages {
    let content = &seen.content;
    let many = content["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = many.iter().chain([&content["message"]]).filter_map(|one| one["messageId"].as_str());
    let is_queued = content["keys"].as_array().is_some_and(|keys| keys.iter().any(|key| key == StateUpdateBody::QUEUE));
    RecordedMessages { ids: ids.map(MessageId::from).collect(), is_queued }
}

/// The names of the keys that sent any messages of these senders, or shaped a run that did.
async fn askers(service: &Service, pk: ThreadPk, senders: &[&Sender]) -> Result<Vec<String>> {
    let mut runs = HashSet::new();
    let (mut names, mut wanted) = (Vec::new(), Vec::new());
    for Sender { name, run } in senders {
        names.extend(name.clone());
        let run = run.as_ref().filter(|run| runs.insert(*run));
        wanted.extend(run.map(|run| (pk, RowKind::Run, run.to_string())));
    }
    for wanted in wanted.chunks(CHUNK as usize) {
        let mut sizes = service.reads.row_bytes(wanted).await?;
        while !sizes.is_empty() {
            let fitting = store::fitting(sizes.iter().map(|(_, bytes)| *bytes), store::MAX_PAGE_BYTES);
            let keys: Vec<_> = sizes.drain(..fitting).map(|(key, _)| key).collect();
            let rows = service.reads.rows_by_id(&keys).await?;
            let runs = rows.iter().filter_map(|(_, row)| legible::<Run>(row));
            names.extend(runs.flat_map(|run| run.requested_by));
        }
    }
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// The total size in bytes of the messages after this one.
fn bytes_after(messages: &[KeptMessage], after: Option<&MessageId>) -> u64 {
    let first = messages.iter().position(|message| Some(&message.id) == after).map_or(0, |at| at + 1);
    messages[first..].iter().filter(|message| !message.is_error).map(|message| message.bytes).sum()
}

/// The calls of the plan's items.
async fn calls(service: &Service, pk: ThreadPk, plan: &ShownPlan) -> Result<Vec<CallRecord>> {
    let wanted: Vec<_> = calls_of(plan).into_iter().map(|id| (pk, RowKind::Call, id.to_string())).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    Ok(service.reads.rows_by_id(&wanted).await?.iter().filter_map(|(_, row)| legible(row)).collect())
}
