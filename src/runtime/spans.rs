//! What the collector of traces is told: a commit leaves parts of the log in the outbox, and whoever sends one reads it.
//!
//! What a run did is told when it ends or stands still, and every 30 seconds while it goes on. How much was told of a run that goes
//! on is a row of its thread, written by the commit that leaves the part: so whoever decides for the thread next goes on from
//! there, and a thread whose runs are short has no such row.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::followed::Followed;
use super::loaded::LoadedThread;
use super::rows;
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::facts::Fact;
use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::observation::Recorded;
use crate::domain::payload::Payloads;
use crate::domain::run::{Run, RunStatus};
use crate::engine::step::{Keep, Row, RowKind, Step};
use crate::outbox::{AttemptOutcome, AttemptResult};
use crate::store;
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};
use crate::traces::{Part, Sent, Spans, Traces};

/// From these sizes on nothing more goes out together.
const GROUP_SPANS: usize = 2_048;
const GROUP_BYTES: usize = 4 << 20;
/// What is said of a delivery for which an attempt had no time.
const TOO_LONG: &str = "it took too long";
/// How long a run may go on before more of it is told.
const TOLD_EVERY: Millis = 30_000;

/// What is known of the runs of a thread that go on.
#[derive(Default)]
pub(super) struct Traced {
    /// How much was told of them.
    told: HashMap<RunId, ToldSoFar>,
    followed: Followed,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct ToldSoFar {
    /// Up to this observation.
    seq: i64,
    at: Millis,
}

impl Traced {
    /// As the rows of a thread say. Of one that cannot be read, what was told is told again.
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut traced = Self::default();
        traced.apply_rows(rows.iter().filter(|row| row.kind == RowKind::Traced));
        traced
    }

    /// Takes in rows that were committed.
    pub(super) fn apply_rows<'r>(&mut self, committed: impl IntoIterator<Item = &'r Row>) {
        for row in committed {
            let told = rows::legible(row).filter(|_| row.keep == Keep::Always);
            match told {
                Some(told) => drop(self.told.insert(row.id.as_str().into(), told)),
                None => drop(self.told.remove(row.id.as_str())),
            }
        }
    }
}

impl ToldSoFar {
    fn row(self, run: &RunId, keep: Keep) -> Row {
        let body = serde_json::to_string(&self).expect("it is plain data");
        Row { kind: RowKind::Traced, id: run.to_string(), ord: self.at, keep, body }
    }
}

impl Shared {
    /// What a step leaves in the outbox, and the rows that say how much was told: a part of the log for each run that it ends, or
    /// that may stand still from now on, and for one that goes on for long.
    pub(super) fn parts_to_trace(
        &self,
        loaded: &mut LoadedThread,
        step: &Step,
        now: Millis,
    ) -> (Vec<NewDelivery>, Vec<Row>) {
        let after = loaded.row.last_seq;
        let until = after + i64::try_from(step.records.len()).unwrap_or(0);
        let active = loaded.machine.run().filter(|run| step.runs.iter().all(|known| known.run_id != run.run_id));
        let runs = step.runs.iter().chain(active).filter(|run| run.started_at.is_some());
        let Traced { told, followed } = &mut loaded.traced;
        if let Some(traces) = &self.traces {
            followed.take(traces, &loaded.row.thread_id, runs.clone(), step, after);
        }
        let (mut parts, mut rows) = (Vec::new(), Vec::new());
        for run in runs {
            let told = told.get(&run.run_id);
            if let Some(told) = told.filter(|_| run.status.is_terminal()) {
                rows.push(told.row(&run.run_id, Keep::Never));
            }
            let (is_at_rest, is_due) = (is_at_rest(run, step), is_due(run, told, step, now));
            let Some(traces) = self.traces.as_ref().filter(|_| is_at_rest || is_due) else { continue };
            let Some(part) = traces.part(run, after, until) else { continue };
            let part = Part { told: told.map_or(0, |told| told.seq), ..part };
            let mut leave = |part: &Part| {
                let delivery = self.delivery(part);
                if let Some(spans) = followed.spans(part, run.status.is_terminal()) {
                    self.made_spans.put(delivery.id.clone(), spans);
                }
                parts.push(delivery);
            };
            if is_at_rest {
                leave(&part);
            }
            if is_due {
                leave(&Part { goes_on: true, ..part });
                rows.push(ToldSoFar { seq: until, at: now }.row(&run.run_id, Keep::Always));
            }
        }
        (parts, rows)
    }

    fn delivery(&self, part: &Part) -> NewDelivery {
        NewDelivery {
            id: self.mint().delivery(),
            kind: TargetKind::Collector,
            target: "traces".to_owned(),
            ordering_key: None,
            event: "spans".to_owned(),
            body: serde_json::to_string(part).expect("it has string keys"),
        }
    }

    /// Sends the parts of logs that these deliveries name, in the time of one attempt: what became of each.
    pub(super) async fn send_parts(&self, deliveries: &[Delivery]) -> Vec<AttemptResult> {
        let Some(traces) = &self.traces else {
            let gone = || (AttemptOutcome::Undeliverable, "no collector is set any more".to_owned());
            return deliveries.iter().map(|_| gone()).collect();
        };
        let began = Instant::now();
        // What was not read by then is read with the next attempt, so that what was read goes out.
        let (read_until, until) =
            (began + self.outbox.timing.attempt_timeout / 2, began + self.outbox.timing.attempt_timeout);
        let mut outcomes: Vec<Option<AttemptResult>> = vec![None; deliveries.len()];
        let mut group = Group::default();
        for (at, delivery) in deliveries.iter().enumerate() {
            match timeout_at(read_until, self.spans_of(traces, delivery)).await {
                Ok(Ok(spans)) => group.add(at, spans),
                Ok(Err(came_to)) => outcomes[at] = Some(came_to),
                Err(_) => outcomes[at] = Some((AttemptOutcome::Failed, TOO_LONG.to_owned())),
            }
            if group.is_full() || at + 1 == deliveries.len() {
                std::mem::take(&mut group).send(traces, until, &mut outcomes).await;
            }
        }
        outcomes.into_iter().map(|came_to| came_to.expect("each failed, or was sent in a group")).collect()
    }

    async fn spans_of(&self, traces: &Traces, delivery: &Delivery) -> Result<Spans, AttemptResult> {
        if let Some(spans) = self.made_spans.take(&delivery.id) {
            return Ok(spans);
        }
        let part: Part =
            serde_json::from_str(&delivery.body).map_err(|error| (AttemptOutcome::Undeliverable, error.to_string()))?;
        let log = self.log_of(traces, delivery.thread, &part).await;
        let log = log.map_err(|error| (AttemptOutcome::Failed, error.to_string()))?;
        traces.spans(&part, &log).map_err(|why| (AttemptOutcome::Undeliverable, why))
    }

    /// What happened in the run until the part's end, with payloads in place if spans hold them. Nothing, where the log was
    /// shortened meanwhile.
    async fn log_of(&self, traces: &Traces, pk: ThreadPk, part: &Part) -> store::Result<Vec<Recorded>> {
        let log = self.store.facts(pk, &part.run_id, part.until).await?;
        if !traces.has_content() {
            return Ok(log);
        }
        let (contents, mut known) = (log.iter().map(|recorded| recorded.fact.content()), Payloads::new());
        self.fetch(pk, &contents.collect::<Vec<_>>(), &mut known).await?;
        let whole = |recorded: Recorded| Recorded { fact: recorded.fact.inlined(&known), ..recorded };
        Ok(log.into_iter().map(whole).collect())
    }
}

/// Parts whose spans go out together, and the places of their deliveries.
#[derive(Default)]
struct Group {
    places: Vec<usize>,
    parts: Vec<Spans>,
}

impl Group {
    fn add(&mut self, place: usize, spans: Spans) {
        self.places.push(place);
        self.parts.push(spans);
    }

    fn is_full(&self) -> bool {
        let sum = |of: fn(&Spans) -> usize| self.parts.iter().map(of).sum::<usize>();
        sum(Spans::count) >= GROUP_SPANS || sum(Spans::bytes) >= GROUP_BYTES
    }

    /// All at once. Where the collector refuses that, each by itself: one that it refuses takes no other with it.
    async fn send(self, traces: &Traces, until: Instant, outcomes: &mut [Option<AttemptResult>]) {
        let send = async |parts: &[Spans]| {
            timeout_at(until, traces.send(parts)).await.unwrap_or_else(|_| Sent::Failed(TOO_LONG.to_owned()))
        };
        let sent = send(&self.parts).await;
        let is_apart = matches!(sent, Sent::Refused(_)) && self.parts.len() > 1;
        for (place, part) in self.places.into_iter().zip(&self.parts) {
            let sent = if is_apart { send(std::slice::from_ref(part)).await } else { sent.clone() };
            outcomes[place] = Some(match sent {
                Sent::Taken => {
                    count("sent", part.count());
                    (AttemptOutcome::Delivered, format!("{} spans", part.count()))
                }
                Sent::Failed(why) => (AttemptOutcome::Failed, why),
                Sent::Refused(why) => {
                    count("refused", part.count());
                    (AttemptOutcome::Undeliverable, why)
                }
            });
        }
    }
}

/// Whether the step ends it, or it may stand still from now on.
fn is_at_rest(run: &Run, step: &Step) -> bool {
    let mut records = step.records.iter().filter(|record| record.run_id == run.run_id);
    let asks = records.any(|record| matches!(record.fact, Fact::AgentSuspended(_)));
    run.status.is_terminal() || run.status == RunStatus::Suspended || asks
}

/// Whether it goes on, and nothing was told of it for long.
fn is_due(run: &Run, told: Option<&ToldSoFar>, step: &Step, now: Millis) -> bool {
    let is_over = run.status.is_terminal() || run.status == RunStatus::Suspended;
    let last = told.map(|told| told.at).max(run.started_at).unwrap_or(run.since).max(run.since);
    !is_over && now - last >= TOLD_EVERY && step.records.iter().any(|record| record.run_id == run.run_id)
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!("pes_telemetry_spans_total", "outcome" => outcome).increment(spans as u64);
}
