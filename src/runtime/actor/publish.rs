//! Publishing what was committed: to the requests that wait for a run and to the subscribers of the thread.

use super::Actor;
use super::loaded::LoadedThread;
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::domain::payload::{self, Payloads};
use crate::domain::run::{Run, RunResource};
use crate::engine::history::fold::Fold;
use crate::engine::step::{RowKind, Step};
use crate::failpoint;
use crate::live::Hub;
use crate::runtime::own_address::OwnAddress;
use crate::runtime::rows::legible;
use crate::runtime::shared::Shared;
use crate::store::ThreadRow;

/// What will be published of a step once it is committed.
pub(super) struct Publication {
    /// The last seq of the log before the commit.
    after: i64,
    /// For subscribers, from the seq after that one on; `None`: there are no subscribers.
    observations: Option<Vec<Observation>>,
    /// The final messages of runs that ended. Also without subscribers: one may come before it is published.
    answers: Vec<ConversationMessage>,
}

impl LoadedThread {
    /// Before a decision: builds the fold that makes full observations if there are subscribers, drops it if there are none.
    pub(super) fn update_fold(&mut self, hub: &Hub) {
        if !hub.has_subscribers(self.row.pk) {
            self.fold = None;
        } else if self.fold.is_none() {
            self.fold = Some(self.machine.plan().map(Fold::of_plan).unwrap_or_else(|error| {
                let thread = &self.row.thread_id;
                tracing::warn!(
                    threadId = %thread,
                    %error,
                    "the plan in the thread's state cannot be read; listeners get whole lists of its steps from here on"
                );
                Fold::of_lists()
            }));
        }
    }

    /// After a decision: what to publish of it.
    pub(super) fn publication(&mut self, step: &Step) -> Publication {
        let after = self.row.last_seq;
        let observations = self.fold.as_mut().map(|fold| {
            let numbered = step.records.iter().zip(after + 1..);
            numbered.map(|(record, seq)| fold.record(record, &self.row.thread_id, seq)).collect()
        });
        Publication { after, observations, answers: answers(step) }
    }
}

/// The final messages of runs that ended in this step.
fn answers(step: &Step) -> Vec<ConversationMessage> {
    if step.runs.iter().all(|run| run.outcome.is_none()) {
        return Vec::new();
    }
    let messages = step.rows.iter().filter(|row| row.kind == RowKind::Message);
    messages.filter_map(legible).collect()
}

impl Actor {
    /// Publishes what was just committed.
    pub(super) async fn publish(&mut self, mut publication: Publication, step: &Step) {
        failpoint::reached("publish.before");
        let address = &self.shared.own_address;
        for run in &step.runs {
            log(run);
            self.shared.waiters.notify(&run.run_id, || publication.resource_if_complete(address, run));
        }
        let after = publication.after;
        let publish_run = |run: RunResource| self.shared.hub.publish_run(self.pk, &run, after);
        match (publication.observations.take(), &self.loaded) {
            (Some(observations), Some(loaded)) => {
                // Observations go before the status of the run that they changed.
                self.shared.publish_observations(&loaded.row, observations, step).await;
                step.runs.iter().for_each(|run| publish_run(publication.resource(address, run)));
            }
            // A subscriber that came after the decision may have read the store before the commit: it must read again.
            (None, Some(_)) if self.shared.hub.has_subscribers(self.pk) => {
                self.shared.hub.publish_gap(self.pk);
                step.runs.iter().for_each(|run| publish_run(publication.resource(address, run)));
            }
            (None, Some(_) | None) | (Some(_), None) => {}
        }
    }
}

impl Publication {
    fn resource(&self, address: &OwnAddress, run: &Run) -> RunResource {
        address.resource(run, self.answer(run).cloned())
    }

    /// The run with its final message; `None`: it ended with a message that is not here.
    fn resource_if_complete(&self, address: &OwnAddress, run: &Run) -> Option<RunResource> {
        let answer = self.answer(run);
        (run.outcome.is_none() || answer.is_some()).then(|| address.resource(run, answer.cloned()))
    }

    fn answer(&self, run: &Run) -> Option<&ConversationMessage> {
        let named = &run.outcome.as_ref()?.message_id;
        self.answers.iter().find(|message| message.message_id == *named)
    }
}

impl Shared {
    /// Publishes the observations of a step, with their payloads inlined.
    async fn publish_observations(&self, row: &ThreadRow, observations: Vec<Observation>, step: &Step) {
        let mut known: Payloads = step.payloads.iter().cloned().collect();
        let contents = observations.iter().map(|observation| &observation.content);
        if let Err(error) = self.fetch(row.pk, contents, &mut known).await {
            tracing::warn!(
                threadId = %row.thread_id,
                seq = observations.first().map(|first| first.seq),
                %error,
                "the payloads of observations could not be read; listeners are told to read them from the store"
            );
            return self.hub.publish_gap(row.pk);
        }
        for mut observation in observations {
            observation.content = payload::inline(observation.content, &known);
            self.hub.publish_observation(row.pk, observation);
        }
    }
}

fn log(run: &Run) {
    let (thread, trace) = (&run.thread_id, &run.trace_id);
    tracing::info!(threadId = %thread, runId = %run.run_id, traceId = %trace, status = run.status.as_str(), "run");
}
