//! What a thread's agent showed to those who spoke with it, read from the log: answers, questions as text, calls of the
//! client's own tools. A copy of a thread begins with what the original showed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::asking::Asker;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, RecordedMessage, StateUpdateBody};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{MessageId, RunId, SuspensionId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::observation::ObservationType;
use crate::domain::thread::Thread;
use crate::domain::which_thread::{Normal, Shown, ShownUntil};
use crate::http::doors::question;
use crate::http::doors::told::{Says, ToldFact};
use crate::service::feed::{self, After, FeedAsk};
use crate::service::suspensions;

/// Observations that are read at once.
const CHUNK: u32 = 200;

/// Stages of a run that are looked at, besides its end: the last ones.
const MOST_STAGES: usize = 64;

/// Threads that are read as one: a copy, what it is a copy of, and so on. What is beyond them counts as gone.
const MOST_COPIES: usize = 32;

const HEARD: [ObservationType; 7] = [
    ObservationType::RunStarted,
    ObservationType::StateUpdate,
    ObservationType::AgentSuspended,
    ObservationType::AgentResumed,
    ObservationType::SuspensionTimeout,
    ObservationType::FinalResponse,
    ObservationType::RunFinished,
];

/// A place in the log at which a client may have seen a run end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    pub(super) seq: i64,
    /// Everything until then, oldest first.
    pub(super) shown: ShownUntil,
    pub(super) ends: Ends,
}

/// What came after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Nothing of the run.
    Here,
    /// What was asked was answered by what was said on the thread.
    Answered,
    /// It was answered elsewhere, or nobody answered in time.
    Elsewhere,
}

/// A run's stages, the last first, and the last thing that was said on its thread.
#[derive(Clone, Debug, Default)]
pub(super) struct RunShown {
    pub(super) stages: Vec<Stage>,
    pub(super) last_message: Option<MessageId>,
}

/// Reads the thread to the end of the run; a thread whose log does not go back to its beginning shows nothing.
pub(super) async fn of_run(asker: &Asker, thread: &ThreadId, run: &RunId) -> Result<RunShown, Fault> {
    let mut origins = vec![(thread.clone(), i64::MAX)];
    let mut copy = found(asker, thread).await?;
    while let Some(Thread { forked_from: Some(from), created_at, .. }) = copy {
        // One that is gone, or was made later under the same id, is not read: its copies have its messages.
        copy = found(asker, &from.thread_id).await?.filter(|origin| origin.created_at <= created_at);
        if copy.is_none() || origins.len() == MOST_COPIES || origins.iter().any(|(known, _)| *known == from.thread_id) {
            break;
        }
        origins.push((from.thread_id, from.seq));
    }
    let mut reader = Reader::new(run.clone(), suspensions::urls(&asker.app.service));
    for (thread, until) in origins.into_iter().rev() {
        match reader.read(asker, &thread, until).await {
            // Its copies have its messages.
            Err(fault) if fault.code == Code::NotFound => reader.has_origin = false,
            read => read?,
        }
    }
    Ok(reader.end())
}

async fn found(asker: &Asker, thread: &ThreadId) -> Result<Option<Thread>, Fault> {
    match crate::service::threads::get(&asker.app.service, &asker.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Something that was shown, of which run, and the message that it is.
#[derive(Clone, Debug)]
struct Entry {
    shown: Shown,
    run: Option<RunId>,
    message: Option<MessageId>,
}

/// A stage while the log is read. What was shown is not put together for each of them: that would take as long as all of it, for
/// each answer of the run.
#[derive(Clone, Debug)]
struct Passed {
    seq: i64,
    ends: Ends,
    /// How many entries there were.
    count: usize,
    /// Those entries and later ones; `None`: they are as they were.
    entries: Option<Arc<[Shown]>>,
}

struct Reader {
    urls: Option<ConsoleUrls>,
    run: RunId,
    entries: Vec<Entry>,
    /// There are other entries than at the last stage.
    is_changed: bool,
    /// Calls of the client's tools.
    calls: HashSet<SuspensionId>,
    /// The message that each run was asked with.
    queries: HashMap<RunId, MessageId>,
    stages: VecDeque<Passed>,
    last_message: Option<MessageId>,
    /// Where somebody said something last.
    said_at: i64,
    seq: i64,
    /// The thread that this one is a copy of was read.
    has_origin: bool,
    is_over: bool,
    is_cut: bool,
}

impl Reader {
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
            said_at: 0,
            seq: 0,
            has_origin: false,
            is_over: false,
            is_cut: false,
        }
    }

    async fn read(&mut self, asker: &Asker, thread: &ThreadId, until: i64) -> Result<(), Fault> {
        let (mut after, mut is_whole) = (0, true);
        while !self.is_over {
            let ask = FeedAsk { after: After::Seq(after), types: HEARD.to_vec(), ..FeedAsk::default() };
            let page = feed::page(&asker.app.service, &asker.caller, thread, ask, CHUNK).await?;
            is_whole &= page.min_seq <= 1;
            for observation in page.items {
                after = observation.seq;
                if after > until || self.is_over {
                    break;
                }
                if let Ok(told) = ToldFact::of(observation) {
                    self.told(&told);
                }
            }
            if page.next_cursor.is_none() || after > until {
                break;
            }
        }
        (self.has_origin, self.is_cut) = (is_whole, self.is_cut || !is_whole);
        Ok(())
    }

    fn told(&mut self, told: &ToldFact) {
        let Says::Fact(fact) = &told.says else { return };
        match fact {
            Fact::RunStarted(body) => {
                self.queries.insert(told.run.clone(), body.message.message_id.clone());
                self.last_message = Some(body.message.message_id.clone());
            }
            Fact::StateUpdate(body) => self.updated(told, body),
            Fact::AgentSuspended(asked) => {
                let shown = self.asked(asked);
                self.add(Entry { shown, run: Some(told.run.clone()), message: None });
            }
            Fact::AgentResumed(body) => {
                let is_call = self.calls.contains(&body.suspension_id);
                let is_said = self.said_at > 0 && self.said_at + 1 == told.seq;
                let before = if is_said { told.seq - 2 } else { told.seq - 1 };
                self.passes(told, before, if is_call || is_said { Ends::Answered } else { Ends::Elsewhere });
            }
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(_) => self.passes(told, told.seq - 1, Ends::Elsewhere),
            Fact::FinalResponse(body) => self.said(&body.message),
            Fact::RunFinished(_) if told.run == self.run => self.is_over = true,
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
        self.seq = told.seq;
    }

    fn updated(&mut self, told: &ToldFact, body: &StateUpdateBody) {
        if !body.superseded.is_empty() {
            self.put_together();
            let (queries, superseded) = (&self.queries, body.superseded.iter().collect::<HashSet<_>>());
            let is_gone = |entry: &Entry| {
                let asked_with = entry.run.as_ref().and_then(|run| queries.get(run));
                entry.message.iter().chain(asked_with).any(|id| superseded.contains(id))
            };
            let before = self.entries.len();
            self.entries.retain(|entry| !is_gone(entry));
            self.is_changed |= self.entries.len() < before;
        }
        // A copy tells of the messages that the original told of before.
        let is_known = |message: &&RecordedMessage| !(self.has_origin && message.role == MessageRole::Ai);
        let said: Vec<&RecordedMessage> = body.messages.iter().chain(&body.message).filter(is_known).collect();
        for message in said {
            if message.role == MessageRole::User {
                self.said_at = told.seq;
            }
            self.said(message);
        }
    }

    fn said(&mut self, message: &RecordedMessage) {
        self.last_message = Some(message.message_id.clone());
        let text = message.content.as_str().unwrap_or_default();
        let is_error = message.metadata.as_ref().is_some_and(|it| it.contains_key(ConversationMessage::ERROR));
        if message.role == MessageRole::Ai && !is_error && !text.trim().is_empty() {
            let (shown, message_id) = (Shown::Answer(Normal::of(text)), Some(message.message_id.clone()));
            self.add(Entry { shown, run: message.run_id.clone(), message: message_id });
        }
    }

    fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.is_changed = true;
    }

    fn asked(&mut self, asked: &AskedQuestion) -> Shown {
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

    /// What was asked is asked no more.
    fn passes(&mut self, told: &ToldFact, seq: i64, ends: Ends) {
        // Answers that were given together end one stage.
        if told.run == self.run && std::mem::take(&mut self.is_changed) {
            if self.stages.len() == MOST_STAGES {
                self.stages.pop_front();
            }
            self.stages.push_back(Passed { seq, ends, count: self.entries.len(), entries: None });
        }
    }

    /// The entries of each stage stay as they are now.
    fn put_together(&mut self) {
        let open = |stage: &&mut Passed| stage.entries.is_none();
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
        self.stages.push_back(Passed { seq: self.seq, ends: Ends::Here, count: self.entries.len(), entries: None });
        self.put_together();
        let stages = self.stages.into_iter().rev().filter_map(|Passed { seq, ends, count, entries }| {
            Some(Stage { seq, shown: ShownUntil::new(entries?, count), ends })
        });
        RunShown { stages: stages.collect(), last_message: self.last_message }
    }
}

#[cfg(test)]
mod tests;
