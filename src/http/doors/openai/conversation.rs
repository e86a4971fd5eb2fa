//! Which thread a request goes on whose client sends the whole conversation and names no thread: one that is found by what was
//! said before, and whose agent showed what the client sends back ([`which_thread`]).

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::asking::Asker;
use super::made::Made;
use super::shown::{self, Ends, Stage};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::run::RunStatus;
use crate::domain::which_thread::{self, Candidate, Choice, Said, Sender, SentBack, Shown};
use crate::service::{lookups, runs, threads};

/// Runs that are looked at: of people who all say the same, the newest.
const MOST: u32 = 20;

/// More steps of comparing are taken off the threads that serve everybody.
const AT_ONCE: usize = 20_000;

/// A conversation as its client sends it.
pub(super) struct Conversation<'a> {
    pub(super) asker: &'a Asker,
    pub(super) said: &'a [Said],
    pub(super) user: Option<&'a str>,
}

/// Where a conversation goes on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// On this thread, if this is still the last that was said there; it stands at this place of its log.
    At(ThreadId, Option<MessageId>, i64),
    /// On this thread, where a run goes on that asked something, or still asks it.
    AfterQuestion(ThreadId),
    /// On a copy of this thread as of this place in its log.
    Copy(ThreadId, i64),
}

impl Conversation<'_> {
    /// What a run of this request is to be found under.
    pub(super) fn key(&self) -> LookupKey {
        which_thread::key_of(self.sender(), self.said)
    }

    fn sender(&self) -> Sender<'_> {
        let caller = &self.asker.caller;
        Sender { tenant: caller.tenant, key: &caller.name, user: self.user }
    }

    /// The thread that it goes on; `None`: one begins.
    pub(super) async fn find(&self) -> Result<Option<Found>, Fault> {
        let keys = which_thread::keys_before(self.sender(), self.said);
        let sent = if keys.is_empty() { SentBack::default() } else { SentBack::of(self.said) };
        let sent = Arc::new(sent);
        for key in keys {
            let mut candidates = Vec::new();
            for found in lookups::find(&self.asker.app.service, &self.asker.caller, &key, MOST).await? {
                match self.candidates(&found.thread_id, &found.run_id).await {
                    Err(fault) if fault.code == Code::NotFound => {}
                    more => candidates.extend(more?),
                }
            }
            let (candidates, places) = candidates.into_iter().unzip();
            if let Some(found) = chosen(&sent, candidates, places).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The places of a run at which its client may have heard of it last, and how it goes on there.
    async fn candidates(&self, thread: &ThreadId, run: &RunId) -> Result<Vec<(Candidate, Found)>, Fault> {
        let (service, caller) = (&self.asker.app.service, &self.asker.caller);
        let is_last = threads::get(service, caller, thread).await?.last_run.is_some_and(|last| last.run_id == *run);
        let status = runs::get(service, caller, run).await?.status;
        let read = shown::of_run(self.asker, thread, run).await?;
        let stands_still = status.is_terminal() || status == RunStatus::Suspended;
        // A run at work has shown something where it asks and nobody has answered.
        let is_asked = read.stages.first().is_some_and(|last| {
            let asks = matches!(last.shown.as_slice().last(), Some(Shown::Question(_) | Shown::Call(_)));
            asks && read.stages[1..].iter().all(|passed| passed.shown != last.shown)
        });
        let is_seen = |stage: &Stage| stage.ends != Ends::Here || stands_still || is_asked;
        let candidates = read.stages.into_iter().filter(is_seen).map(|stage| {
            let ends_there = is_last && stage.ends != Ends::Answered;
            let (thread, run, seq) = (thread.clone(), run.clone(), stage.seq);
            let found = if status.is_terminal() {
                Found::At(thread.clone(), read.last_message.clone(), seq)
            } else {
                Found::AfterQuestion(thread.clone())
            };
            (Candidate { thread, run, seq, shown: stage.shown, ends_there }, found)
        });
        Ok(candidates.collect())
    }

    /// A copy of a thread as of a place in its log, under this id; `None`: that place is no longer kept.
    pub(super) async fn copy(&self, of: &ThreadId, at: i64, id: ThreadId) -> Result<Option<Made>, Fault> {
        match Made::copy(self.asker, of, at, id).await {
            Err(fault) if matches!(fault.code, Code::NotFound | Code::HistoryCompacted) => Ok(None),
            copy => copy.map(Some),
        }
    }
}

/// Where a conversation goes on of which this is sent back, among these candidates; each has its place.
async fn chosen(sent: &Arc<SentBack>, candidates: Vec<Candidate>, places: Vec<Found>) -> Result<Option<Found>, Fault> {
    if sent.steps(&candidates) <= AT_ONCE {
        return Ok(choose(sent, &candidates, places));
    }
    let sent = sent.clone();
    let choosing = spawn_blocking(move || choose(&sent, &candidates, places));
    choosing.await.map_err(|error| Fault::new(Code::Internal, format!("The conversation was not found: {error}.")))
}

fn choose(sent: &SentBack, candidates: &[Candidate], places: Vec<Found>) -> Option<Found> {
    match which_thread::choose(sent, candidates) {
        Choice::Continue(one) => {
            let place = candidates.iter().zip(places).find(|(candidate, _)| std::ptr::eq(*candidate, one));
            place.map(|(_, place)| place)
        }
        Choice::Fork(one) => Some(Found::Copy(one.thread.clone(), one.seq)),
        Choice::Begin => None,
    }
}
