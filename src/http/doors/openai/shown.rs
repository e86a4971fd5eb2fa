//! Reads from the log what a thread's agent has shown to its users: answers, questions as text, calls of the client's
//! own tools. A copy of a thread begins with what the original showed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, RecordedMessage, StateUpdateBody};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{MessageId, RunId, SuspensionId, ThreadId};
use crate::domain::message::MessageRole;
use crate::domain::observation::ObservationType;
use crate::domain::thread::Thread;
use crate::domain::which_thread::{Normal, Shown, ShownUntil};
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::LogPages;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};
use crate::http::doors::question;
use crate::service::feed::FeedAsk;
use crate::service::suspensions;

/// The maximum number of stages of a run, besides its end: the last ones.
const MAX_STAGES: usize = 64;

/// The maximum length of a chain of copies that is read as one thread. Older originals are treated as deleted.
const MAX_COPIES: usize = 32;

const OBSERVATION_TYPES: [ObservationType; 7] = [
    ObservationType::RunStarted,
    ObservationType::StateUpdate,
    ObservationType::AgentSuspended,
    ObservationType::AgentResumed,
    ObservationType::SuspensionTimeout,
    ObservationType::FinalResponse,
    ObservationType::RunFinished,
];

/// A position in the log at which a client may have seen the run end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    pub(super) seq: i64,
    /// Everything shown up to there, oldest first.
    pub(super) shown: ShownUntil,
    pub(super) end: StageEnd,
}

/// What followed a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageEnd {
    /// Nothing of this run.
    Last,
    /// The question was answered by a message on the thread.
    Answered,
    /// The question was answered elsewhere, or it expired.
    ClosedElsewhere,
}

/// The stages of a run, the last one first, the last message of its thread, and the number of messages that the thread
/// began with.
#[derive(Clone, Debug, Default)]
pub(super) struct RunShown {
    pub(super) stages: Vec<Stage>,
    pub(super) last_message: Option<MessageId>,
    pub(super) imported: usize,
}

/// Reads the thread up to the end of the run. A thread whose log was compacted at its beginning shows nothing.
pub(super) async fn of_run(ctx: &DoorRequest, thread: &ThreadId, run: &RunId) -> Result<RunShown, Fault> {
    let mut origins = vec![(thread.clone(), i64::MAX)];
    let mut copy = find_thread(ctx, thread).await?;
    while let Some(Thread { forked_from: Some(from), created_at, .. }) = copy {
        // An original that was deleted, or re-created later under the same id, is not read: its copies have its
        // messages.
        copy = find_thread(ctx, &from.thread_id).await?.filter(|origin| origin.created_at <= created_at);
        if copy.is_none() || origins.len() == MAX_COPIES || origins.iter().any(|(known, _)| *known == from.thread_id) {
            break;
        }
        origins.push((from.thread_id, from.seq));
    }
    let mut reader = ShownReader::new(run.clone(), suspensions::urls(&ctx.app.service));
    for (thread, until) in origins.into_iter().rev() {
        match reader.read(ctx, &thread, until).await {
            // Its copies have its messages.
            Err(fault) if fault.code == Code::NotFound => reader.has_origin = false,
            read => read?,
        }
    }
    Ok(reader.end())
}

/// `None` if there is no such thread.
pub(super) async fn find_thread(ctx: &DoorRequest, thread: &ThreadId) -> Result<Option<Thread>, Fault> {
    match crate::service::threads::get(&ctx.app.service, &ctx.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Something that was shown, with its run and its message.
#[derive(Clone, Debug)]
struct ShownEntry {
    shown: Shown,
    run: Option<RunId>,
    message: Option<MessageId>,
}

/// A stage while the log is read. The shown entries are not collected for each stage: that would copy all of them for
/// each answer of the run.
#[derive(Clone, Debug)]
struct PassedStage {
    seq: i64,
    end: StageEnd,
    /// The number of entries up to this stage.
    count: usize,
    /// At least those entries. `None` while the reader's own list still contains them unchanged.
    entries: Option<Arc<[Shown]>>,
}

struct ShownReader {
    urls: Option<ConsoleUrls>,
    run: RunId,
    entries: Vec<ShownEntry>,
    /// Whether entries were added or removed since the last stage.
    is_changed: bool,
    /// The calls of the client's tools.
    calls: HashSet<SuspensionId>,
    /// The user's message of each run.
    queries: HashMap<RunId, MessageId>,
    stages: VecDeque<PassedStage>,
    last_message: Option<MessageId>,
    imported: usize,
    /// The `seq` of the last message of a user.
    last_user_seq: i64,
    seq: i64,
    /// Whether the original of this thread was read.
    has_origin: bool,
    is_finished: bool,
    is_cut: bool,
}

impl ShownReader {
    fn new(run: RunId, urls: Option<ConsoleUrls>) -> Self {
        Self {
            urls,
            run,
            entries: Vec::new(),
            is_changed: true,
            calls: HashSet::new(),
            queries: HashMap::new(),
            stages: VecDeque::new(),
            last_message: None,
            imported: 0,
            last_user_seq: 0,
            seq: 0,
            has_origin: false,
            is_finished: false,
            is_cut: false,
        }
    }

    async fn read(&mut self, ctx: &DoorRequest, thread: &ThreadId, until: i64) -> Result<(), Fault> {
        let ask = FeedAsk { types: OBSERVATION_TYPES.to_vec(), ..FeedAsk::default() };
        let mut pages = LogPages::new(&ctx.app, &ctx.caller, thread, ask);
        let mut is_whole = true;
        'pages: while !self.is_finished
            && let Some(page) = pages.next().await?
        {
            is_whole &= page.min_seq <= 1;
            for observation in page.items {
                if observation.seq > until || self.is_finished {
                    break 'pages;
                }
                if let Ok(observation) = DecodedObservation::decode(observation) {
                    self.apply(&observation);
                }
            }
        }
        (self.has_origin, self.is_cut) = (is_whole, self.is_cut || !is_whole);
        Ok(())
    }

    fn apply(&mut self, observation: &DecodedObservation) {
        let ObservationContent::Fact(fact) = &observation.content else { return };
        match fact {
            Fact::RunStarted(body) => {
                self.queries.insert(observation.run.clone(), body.message.message_id.clone());
                self.last_message = Some(body.message.message_id.clone());
            }
            Fact::StateUpdate(body) => self.state_updated(observation, body),
            Fact::AgentSuspended(asked) => {
                let shown = self.shown_question(asked);
                self.add(ShownEntry { shown, run: Some(observation.run.clone()), message: None });
            }
            Fact::AgentResumed(body) => {
                let is_call = self.calls.contains(&body.suspension_id);
                let is_said = self.last_user_seq > 0 && self.last_user_seq + 1 == observation.seq;
                let before = if is_said { observation.seq - 2 } else { observation.seq - 1 };
                self.end_stage(
                    observation,
                    before,
                    if is_call || is_said { StageEnd::Answered } else { StageEnd::ClosedElsewhere },
                );
            }
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(_) => self.end_stage(observation, observation.seq - 1, StageEnd::ClosedElsewhere),
            Fact::FinalResponse(body) => self.add_message(&body.message),
            Fact::RunFinished(_) if observation.run == self.run => self.is_finished = true,
            Fact::RunFinished(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamError(_)
            | Fact::Thoughts(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::A2aTask(_)
            | Fact::Synthesis(_)
            | Fact::Error(_) => {}
        }
        self.seq = observation.seq;
    }

    fn state_updated(&mut self, observation: &DecodedObservation, body: &StateUpdateBody) {
        if !body.superseded.is_empty() {
            self.fix_entries();
            let (queries, superseded) = (&self.queries, body.superseded.iter().collect::<HashSet<_>>());
            let is_gone = |entry: &ShownEntry| {
                let asked_with = entry.run.as_ref().and_then(|run| queries.get(run));
                entry.message.iter().chain(asked_with).any(|id| superseded.contains(id))
            };
            let before = self.entries.len();
            self.entries.retain(|entry| !is_gone(entry));
            self.is_changed |= self.entries.len() < before;
        }
        self.imported += body.messages.len();
        // The log of a copy repeats the agent's messages that the original's log has.
        let is_known = |message: &&RecordedMessage| !(self.has_origin && message.role == MessageRole::Ai);
        let messages: Vec<&RecordedMessage> = body.messages.iter().chain(&body.message).filter(is_known).collect();
        for message in messages {
            if message.role == MessageRole::User {
                self.last_user_seq = observation.seq;
            }
            self.add_message(message);
        }
    }

    fn add_message(&mut self, message: &RecordedMessage) {
        self.last_message = Some(message.message_id.clone());
        let text = message.content.as_str().unwrap_or_default();
        if message.role == MessageRole::Ai && !message.is_error() && !text.trim().is_empty() {
            let (shown, message_id) = (Shown::Answer(Normal::of(text)), Some(message.message_id.clone()));
            self.add(ShownEntry { shown, run: message.run_id.clone(), message: message_id });
        }
    }

    fn add(&mut self, entry: ShownEntry) {
        self.entries.push(entry);
        self.is_changed = true;
    }

    fn shown_question(&mut self, asked: &AskedQuestion) -> Shown {
        match asked.kind {
            SuspensionKind::ClientTool => {
                self.calls.insert(asked.suspension_id.clone());
                Shown::Call(asked.suspension_id.as_str().into())
            }
            SuspensionKind::Approval
            | SuspensionKind::Input
            | SuspensionKind::InDoubt
            | SuspensionKind::Budget
            | SuspensionKind::PeerInput
            | SuspensionKind::PeerAuth
            | SuspensionKind::PlanReview
            | SuspensionKind::Pause => Shown::Question(Normal::of(&question::text(asked, self.urls.as_ref()))),
        }
    }

    /// Records a stage, since a question was closed.
    fn end_stage(&mut self, observation: &DecodedObservation, seq: i64, end: StageEnd) {
        // Answers of one request end a single stage.
        if observation.run == self.run && std::mem::take(&mut self.is_changed) {
            if self.stages.len() == MAX_STAGES {
                self.stages.pop_front();
            }
            self.stages.push_back(PassedStage { seq, end, count: self.entries.len(), entries: None });
        }
    }

    /// Fixes the entries of the open stages before the list changes.
    fn fix_entries(&mut self) {
        let open = |stage: &&mut PassedStage| stage.entries.is_none();
        let mut open = self.stages.iter_mut().filter(open).peekable();
        if open.peek().is_some() {
            let entries: Arc<[Shown]> = self.entries.iter().map(|entry| entry.shown.clone()).collect();
            open.for_each(|stage| stage.entries = Some(entries.clone()));
        }
    }

    fn end(mut self) -> RunShown {
        if self.is_cut {
            return RunShown::default();
        }
        self.stages.push_back(PassedStage {
            seq: self.seq,
            end: StageEnd::Last,
            count: self.entries.len(),
            entries: None,
        });
        self.fix_entries();
        let stages = self.stages.into_iter().rev().filter_map(|PassedStage { seq, end, count, entries }| {
            Some(Stage { seq, shown: ShownUntil::new(entries?, count), end })
        });
        RunShown { stages: stages.collect(), last_message: self.last_message, imported: self.imported }
    }
}

#[cfg(test)]
mod tests;
