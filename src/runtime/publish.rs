//! Telling the world what is committed: those who wait for a run, and those who listen to the thread.

use super::actor::Actor;
use super::seat::Seat;
use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, Record};
use crate::domain::payload::{self, Payloads};
use crate::domain::run::{Run, RunResource};
use crate::engine::step::{RowKind, Step};
use crate::failpoint;

/// What listeners will be told of a step once it is committed; nothing is kept for a thread that nobody listens to. Who
/// begins to listen between then and the commit is told to read again: the backlog may have been read before it.
pub(super) struct News(Option<Told>);

struct Told {
    /// The seq of the first record.
    first: i64,
    records: Vec<Record>,
    answers: Vec<ConversationMessage>,
}

impl News {
    pub(super) fn of(shared: &Shared, seat: &Seat, step: &Step) -> Self {
        if !shared.hub.is_watched(seat.row.pk) {
            return Self(None);
        }
        let has_ended = step.runs.iter().any(|run| run.outcome.is_some());
        let messages = step.rows.iter().filter(|row| has_ended && row.kind == RowKind::Message);
        let answers = messages.filter_map(|row| serde_json::from_str(&row.body).ok()).collect();
        Self(Some(Told { first: seat.row.last_seq + 1, records: step.records.clone(), answers }))
    }
}

impl Actor {
    /// Tells what was just committed. Who listens from now on finds it in the store.
    pub(super) async fn publish(&mut self, news: News, step: &Step) {
        failpoint::reached("publish.before");
        for run in &step.runs {
            log(run);
            self.shared.waiters.tell(&run.run_id);
        }
        let Some(told) = news.0 else { return self.shared.hub.gap(self.pk) };
        let Some(seat) = &mut self.seat else { return };
        let observations = told.observations(seat);
        self.shared.tell(self.pk, observations, step).await;
        for run in &step.runs {
            self.shared.hub.run(self.pk, &told.resource(run));
        }
    }
}

impl Told {
    fn observations(&self, seat: &Seat) -> Vec<Observation> {
        let numbered = self.records.iter().cloned().zip(self.first..);
        numbered.map(|(record, seq)| Observation::of(record, seat.row.thread_id.clone(), seq)).collect()
    }

    fn resource(&self, run: &Run) -> RunResource {
        let named = run.outcome.as_ref().map(|outcome| &outcome.message_id);
        run.resource(self.answers.iter().find(|message| Some(&message.message_id) == named).cloned())
    }
}

impl Shared {
    async fn tell(&self, pk: ThreadPk, mut observations: Vec<Observation>, step: &Step) {
        let mut known: Payloads = step.payloads.iter().cloned().collect();
        if let Err(error) = self.fetch(pk, observations.iter().map(|told| &told.content), &mut known).await {
            tracing::warn!(%error, "listeners get references in the place of large values");
        }
        for observation in &mut observations {
            observation.content = payload::inline(observation.content.take(), &known);
            self.hub.observation(pk, observation);
        }
    }
}

fn log(run: &Run) {
    let (thread, trace) = (&run.thread_id, &run.trace_id);
    tracing::info!(threadId = %thread, runId = %run.run_id, traceId = %trace, status = run.status.as_str(), "run");
}
