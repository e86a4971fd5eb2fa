//! Finds the thread that a request continues if its client sends the whole conversation and names no thread: a thread
//! with the same earlier messages, whose agent showed what the client sends back ([`which_thread`]).

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::shown::{self, Stage, StageEnd};
use super::temporary_thread::TemporaryThread;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::run::RunStatus;
use crate::domain::which_thread::{self, Candidate, Choice, Said, Sender, SentBack, Shown};
use crate::http::doors::DoorRequest;
use crate::service::{fork, lookups, runs, threads};

/// The maximum number of runs to compare with, the newest ones. Many people may send the same messages.
const MAX_RUNS: u32 = 20;

/// A comparison of more steps runs on a blocking thread.
const MAX_INLINE_STEPS: usize = 20_000;

/// A conversation as the client sends it.
pub(super) struct SentConversation<'a> {
    pub(super) ctx: &'a DoorRequest,
    pub(super) said: &'a [Said],
    pub(super) user: Option<&'a str>,
}

/// The thread that continues a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MatchedThread {
    /// This thread, if this message is still its last one. Its log ends at this `seq`.
    Continue(ThreadId, Option<MessageId>, i64),
    /// This thread, whose active run asked something or still asks it.
    AfterQuestion(ThreadId),
    /// A copy of this thread as of this `seq`.
    Copy(ThreadId, i64),
}

impl SentConversation<'_> {
    /// The key under which a run of this request can be found.
    pub(super) fn key(&self) -> LookupKey {
        which_thread::key_of(self.sender(), self.said)
    }

    fn sender(&self) -> Sender<'_> {
        let caller = &self.ctx.caller;
        Sender { tenant: caller.tenant, key: &caller.name, user: self.user }
    }

    /// The thread to continue. `None` starts a new one.
    pub(super) async fn find(&self) -> Result<Option<MatchedThread>, Fault> {
        let keys = which_thread::keys_before(self.sender(), self.said);
        let sent = if keys.is_empty() { SentBack::default() } else { SentBack::of(self.said) };
        let sent = Arc::new(sent);
        for key in keys {
            let mut candidates = Vec::new();
            for found in lookups::find(&self.ctx.app.service, &self.ctx.caller, &key, MAX_RUNS).await? {
                match self.candidates(&found.thread_id, &found.run_id).await {
                    Err(fault) if fault.code == Code::NotFound => {}
                    more => candidates.extend(more?),
                }
            }
            let (candidates, places) = candidates.into_iter().unzip();
            if let Some(found) = choose_offloaded(&sent, candidates, places).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The positions at which the client may have last seen this run, and how the conversation continues from each.
    async fn candidates(&self, thread: &ThreadId, run: &RunId) -> Result<Vec<(Candidate, MatchedThread)>, Fault> {
        let (service, caller) = (&self.ctx.app.service, &self.ctx.caller);
        let is_last = threads::get(service, caller, thread).await?.last_run.is_some_and(|last| last.run_id == *run);
        let status = runs::get(service, caller, run).await?.status;
        let read = shown::of_run(self.ctx, thread, run).await?;
        let is_idle = status.is_terminal() || status == RunStatus::Suspended;
        // An active run counts as seen only where its open question was shown and nobody has answered it.
        let is_asked = read.stages.first().is_some_and(|last| {
            let asks = matches!(last.shown.as_slice().last(), Some(Shown::Question(_) | Shown::Call(_)));
            asks && read.stages[1..].iter().all(|passed| passed.shown != last.shown)
        });
        let may_be_cut = read.imported > 0 && read.imported >= self.ctx.app.config.limits.history_messages;
        let is_seen = |stage: &Stage| stage.end != StageEnd::Last || is_idle || is_asked;
        let candidates = read.stages.into_iter().filter(is_seen).map(|stage| {
            let ends_there = is_last && stage.end != StageEnd::Answered;
            let (thread, run, seq) = (thread.clone(), run.clone(), stage.seq);
            let found = if status.is_terminal() {
                MatchedThread::Continue(thread.clone(), read.last_message.clone(), seq)
            } else {
                MatchedThread::AfterQuestion(thread.clone())
            };
            (Candidate { thread, run, seq, shown: stage.shown, ends_there, may_be_cut }, found)
        });
        Ok(candidates.collect())
    }

    /// A copy of a thread as of this `seq`, under this id. `None` if that part of the log was deleted, or the conversation is
    /// too long for a copy: then a thread begins with what the client sends.
    pub(super) async fn copy(&self, of: &ThreadId, at: i64, id: ThreadId) -> Result<Option<TemporaryThread>, Fault> {
        match TemporaryThread::copy(self.ctx, of, at, id).await {
            Err(fault) if matches!(fault.code, Code::NotFound | Code::HistoryCompacted) => Ok(None),
            Err(fault) if fork::is_too_long(&fault) => Ok(None),
            copy => copy.map(Some),
        }
    }
}

/// Chooses among these candidates the one to continue. `places` has one entry for each candidate.
async fn choose_offloaded(
    sent: &Arc<SentBack>,
    candidates: Vec<Candidate>,
    places: Vec<MatchedThread>,
) -> Result<Option<MatchedThread>, Fault> {
    if sent.steps(&candidates) <= MAX_INLINE_STEPS {
        return Ok(choose(sent, &candidates, places));
    }
    let sent = sent.clone();
    let choosing = spawn_blocking(move || choose(&sent, &candidates, places));
    choosing.await.map_err(|error| Fault::new(Code::Internal, format!("The conversation was not found: {error}.")))
}

fn choose(sent: &SentBack, candidates: &[Candidate], places: Vec<MatchedThread>) -> Option<MatchedThread> {
    match which_thread::choose(sent, candidates) {
        Choice::Continue(one) => {
            let place = candidates.iter().zip(places).find(|(candidate, _)| std::ptr::eq(*candidate, one));
            place.map(|(_, place)| place)
        }
        Choice::Fork(one) => Some(MatchedThread::Copy(one.thread.clone(), one.seq)),
        Choice::Begin => None,
    }
}
