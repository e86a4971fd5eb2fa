//! Telling the world what is committed: those who wait for a run, and those who listen to the thread.

use super::actor::Actor;
use super::loaded::LoadedThread;
use super::rows::legible;
use super::shared::Shared;
use super::waiters::Waiters;
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, Record};
use crate::domain::payload::{self, Payloads};
use crate::domain::run::{Run, RunResource};
use crate::engine::history::fold::Fold;
use crate::engine::step::{RowKind, Step};
use crate::failpoint;

/// What will be told of a step once it is committed.
pub(super) struct Announcement {
    /// For listeners, and the number of the first; `None`: nobody listens.
    records: Option<(Vec<Record>, i64)>,
    /// The messages in which runs ended, if anybody listens or waits for one of them.
    answers: Vec<ConversationMessage>,
}

impl LoadedThread {
    /// Begins or ends to keep in mind what listeners know; before a decision.
    pub(super) fn attend(&mut self, shared: &Shared) {
        if !shared.hub.is_watched(self.row.pk) {
            self.fold = None;
        } else if self.fold.is_none() {
            self.fold = Some(Fold::of_view(&self.machine.view()).unwrap_or_else(|error| {
                tracing::warn!(threadId = %self.row.thread_id, %error, "the state tells no plan: listeners are told lists from here on");
                Fold::of_lists()
            }));
        }
    }

    /// After the decision: what it brings, if somebody listened before it.
    pub(super) fn news(&self, step: &Step, waiters: &Waiters) -> Announcement {
        let records = self.fold.is_some().then(|| (step.records.clone(), self.row.last_seq + 1));
        let is_told = records.is_some() || step.runs.iter().any(|run| waiters.is_awaited(&run.run_id));
        Announcement { records, answers: if is_told { answers(step) } else { Vec::new() } }
    }
}

/// The messages in which runs of this step ended.
fn answers(step: &Step) -> Vec<ConversationMessage> {
    if step.runs.iter().all(|run| run.outcome.is_none()) {
        return Vec::new();
    }
    let messages = step.rows.iter().filter(|row| row.kind == RowKind::Message);
    messages.filter_map(legible).collect()
}

impl Actor {
    /// Tells what was just committed.
    pub(super) async fn publish(&mut self, mut news: Announcement, step: &Step) {
        failpoint::reached("publish.before");
        for run in &step.runs {
            log(run);
            self.shared.waiters.tell(&run.run_id, || news.whole(run));
        }
        match (news.records.take(), &mut self.loaded) {
            (Some((records, first)), Some(loaded)) => {
                // Whoever hears how a run stands has heard why.
                self.shared.tell(loaded, records, first, step).await;
                step.runs.iter().for_each(|run| self.shared.hub.run(self.pk, &news.resource(run)));
            }
            // Who began to listen since then may have read the store too early.
            (None, Some(_)) => {
                self.shared.hub.gap(self.pk);
                step.runs.iter().for_each(|run| self.shared.hub.run(self.pk, &run.resource(None)));
            }
            (Some(_) | None, None) => {}
        }
    }
}

impl Announcement {
    fn resource(&self, run: &Run) -> RunResource {
        run.resource(self.answer(run).cloned())
    }

    /// Unless the message is missing in which it ended.
    fn whole(&self, run: &Run) -> Option<RunResource> {
        let answer = self.answer(run);
        (run.outcome.is_none() || answer.is_some()).then(|| run.resource(answer.cloned()))
    }

    fn answer(&self, run: &Run) -> Option<&ConversationMessage> {
        let named = &run.outcome.as_ref()?.message_id;
        self.answers.iter().find(|message| message.message_id == *named)
    }
}

impl Shared {
    async fn tell(&self, loaded: &mut LoadedThread, records: Vec<Record>, first: i64, step: &Step) {
        let thread = &loaded.row.thread_id;
        let numbered = records.into_iter().zip(first..);
        let observations: Vec<Observation> = match &mut loaded.fold {
            Some(fold) => numbered.map(|(record, seq)| fold.record(record, thread, seq)).collect(),
            None => numbered.map(|(record, seq)| Observation::of(record, thread.clone(), seq)).collect(),
        };
        let mut known: Payloads = step.payloads.iter().cloned().collect();
        if let Err(error) = self.fetch(loaded.row.pk, observations.iter().map(|told| &told.content), &mut known).await {
            tracing::warn!(%error, "listeners are sent to the store: what they would be told is not whole");
            return self.hub.gap(loaded.row.pk);
        }
        for mut told in observations {
            told.content = payload::inline(told.content, &known);
            self.hub.observation(loaded.row.pk, &told);
        }
    }
}

fn log(run: &Run) {
    let (thread, trace) = (&run.thread_id, &run.trace_id);
    tracing::info!(threadId = %thread, runId = %run.run_id, traceId = %trace, status = run.status.as_str(), "run");
}

/// At most `most` characters, in one line.
pub(super) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
