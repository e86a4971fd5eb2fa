//! Exporting traces: a commit puts ranges of the log into the outbox, and the process that claims such a delivery reads the
//! range and sends its spans.
//!
//! The spans of a run are exported when it ends or waits for a person, and every 30 seconds while it runs. The progress of
//! the export of a run is a row of its thread, written by the commit that queues the range, so that the next process
//! continues there. A run that ends soon, without a question, has no such row.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::Outgoing;
use super::prepared_spans::{FollowedRuns, PreparedSpans};
use crate::domain::Millis;
use crate::domain::ids::{Mint, RunId, ThreadPk};
use crate::domain::observation::Recorded;
use crate::domain::payload::Payloads;
use crate::domain::run::{Run, RunStatus};
use crate::domain::thread::ThreadStatus;
use crate::engine::Machine;
use crate::engine::effect::Effect;
use crate::engine::step::{Keep, Row, RowKind, Step};
use crate::outbox::AttemptResult;
use crate::runtime::actor::LoadedThread;
use crate::runtime::clock::Clock;
use crate::runtime::inline;
use crate::runtime::rows;
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};
use crate::store::{self, Store};
use crate::traces::{ExportResult, LogRange, Spans, Traces, count_spans, is_no_work, needs_texts};

/// The bounds of a group of spans that is sent together. A group is sent when it reaches one of them.
const MAX_GROUP_SPANS: usize = 2_048;
const MAX_GROUP_BYTES: usize = 4 << 20;
/// The note on a delivery for which an attempt had no time.
const TIMED_OUT: &str = "it took too long";
/// The interval of exports during a long run.
const EXPORT_INTERVAL: Millis = 30_000;

/// The export state of a thread's unfinished runs.
#[derive(Default)]
pub(in crate::runtime) struct TraceProgress {
    /// How far each run was exported.
    exported: HashMap<RunId, ExportProgress>,
    followed: FollowedRuns,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ExportProgress {
    /// The last exported observation.
    seq: i64,
    /// When it was exported.
    at: Millis,
    /// How many activations of the run have ended, and the last observation of the last of them.
    activations: i64,
    ended: i64,
}

impl TraceProgress {
    /// Reads the progress from the rows of a thread. A run with an unreadable row is exported from its start again.
    pub(in crate::runtime) fn of(rows: &[Row]) -> Self {
        let mut progress = Self::default();
        progress.apply_rows(rows);
        progress
    }

    /// Applies the progress among these rows.
    pub(in crate::runtime) fn apply_rows(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| row.kind == RowKind::Traced) {
            let progress = rows::legible(row).filter(|_| row.keep == Keep::Always);
            match progress {
                Some(progress) => drop(self.exported.insert(row.id.as_str().into(), progress)),
                None => drop(self.exported.remove(row.id.as_str())),
            }
        }
    }
}

impl ExportProgress {
    fn row(self, run: &RunId, keep: Keep) -> Row {
        let body = serde_json::to_string(&self).expect("it is plain data");
        Row { kind: RowKind::Traced, id: run.to_string(), ord: self.at, keep, body }
    }
}

/// Makes spans of runs, and sends them to the collector of traces if one is configured.
pub(in crate::runtime) struct TraceExporter {
    pub(in crate::runtime) traces: Option<Arc<Traces>>,
    pub(in crate::runtime) store: Arc<dyn Store>,
    pub(in crate::runtime) clock: Arc<dyn Clock>,
    /// The time of one attempt of a delivery.
    pub(in crate::runtime) attempt_timeout: Duration,
    pub(in crate::runtime) prepared: PreparedSpans,
}

impl TraceExporter {
    /// What a step adds to the outbox: a range of the log for each run of which an activation ends, and for a long run whose
    /// next export is due. The rows are the progress.
    pub(super) fn exports(&self, loaded: &mut LoadedThread, step: &Step, now: Millis) -> Outgoing {
        let after = loaded.row.last_seq;
        let until = after + i64::try_from(step.records.len()).unwrap_or(0);
        let active = loaded.machine.run().filter(|run| step.runs.iter().all(|known| known.run_id != run.run_id));
        let runs = step.runs.iter().chain(active).filter(|run| run.started_at.is_some());
        let TraceProgress { exported, followed } = &mut loaded.trace_progress;
        if let Some(traces) = &self.traces {
            followed.apply(traces, &loaded.row.thread_id, runs.clone(), step, after);
        }
        let Outgoing { mut deliveries, mut rows } = Outgoing::default();
        for run in runs {
            let (known, is_over) = (exported.get(&run.run_id), run.status.is_terminal());
            rows.extend(known.filter(|_| is_over).map(|known| known.row(&run.run_id, Keep::Never)));
            let Some(range) = self.traces.as_ref().and_then(|traces| traces.log_range(run, until)) else { continue };
            let ends = ends_activation(run, step, loaded.row.status, &*loaded.machine);
            if !ends && !is_due(run, known, step, now) {
                continue;
            }
            let known = known.copied().unwrap_or_default();
            let (activation, is_open) = (known.activations + 1, !ends);
            let range = LogRange { after: known.ended, activation, exported_until: known.seq, is_open, ..range };
            let delivery = self.delivery(&range);
            if let Some(spans) = followed.take_spans(&range, is_over) {
                self.prepared.put(delivery.id.clone(), spans);
            }
            deliveries.push(delivery);
            let (activations, ended) = if ends { (activation, until) } else { (known.activations, known.ended) };
            let progress = ExportProgress { seq: until, at: now, activations, ended };
            rows.extend((!is_over).then(|| progress.row(&run.run_id, Keep::Always)));
        }
        Outgoing { deliveries, rows }
    }

    fn delivery(&self, range: &LogRange) -> NewDelivery {
        NewDelivery {
            id: Mint::new(self.clock.now(), self.clock.seed()).delivery(),
            kind: TargetKind::Collector,
            target: "traces".to_owned(),
            ordering_key: None,
            event: "spans".to_owned(),
            body: serde_json::to_string(range).expect("it has string keys"),
        }
    }

    /// Exports the ranges that these deliveries name, within the time of one attempt. Returns the result of each.
    pub(in crate::runtime) async fn export(&self, deliveries: &[Delivery]) -> Vec<AttemptResult> {
        let Some(traces) = &self.traces else {
            let gone = || AttemptResult::Undeliverable("no collector is set any more".to_owned());
            return deliveries.iter().map(|_| gone()).collect();
        };
        let began = Instant::now();
        // Half of the time is for reading: ranges that are not read by then wait for the next attempt, so that the others are
        // sent.
        let (read_until, until) = (began + self.attempt_timeout / 2, began + self.attempt_timeout);
        let mut results: Vec<Option<AttemptResult>> = vec![None; deliveries.len()];
        let mut group = SpanGroup::default();
        for (at, delivery) in deliveries.iter().enumerate() {
            match timeout_at(read_until, self.spans_of(traces, delivery)).await {
                Ok(Ok(spans)) => group.add(at, spans),
                Ok(Err(result)) => results[at] = Some(result),
                Err(_) => results[at] = Some(AttemptResult::Failed(TIMED_OUT.to_owned())),
            }
            if group.is_full() || at + 1 == deliveries.len() {
                std::mem::take(&mut group).send(traces, until, &mut results).await;
            }
        }
        results.into_iter().map(|result| result.expect("each failed, or was sent in a group")).collect()
    }

    async fn spans_of(&self, traces: &Traces, delivery: &Delivery) -> Result<Spans, AttemptResult> {
        if let Some(spans) = self.prepared.take(&delivery.id) {
            return Ok(spans);
        }
        let range: LogRange =
            serde_json::from_str(&delivery.body).map_err(|error| AttemptResult::Undeliverable(error.to_string()))?;
        let log = self.log_of(traces, delivery.thread, &range).await;
        let log = log.map_err(|error| AttemptResult::Failed(error.to_string()))?;
        traces.spans(&range, &log).map_err(AttemptResult::Undeliverable)
    }

    /// The run's log up to the end of the range, with the payloads that its spans contain. Empty if the log was shortened
    /// meanwhile.
    async fn log_of(&self, traces: &Traces, pk: ThreadPk, range: &LogRange) -> store::Result<Vec<Recorded>> {
        let log = self.store.facts(pk, &range.run_id, range.until).await?;
        if !traces.has_content() {
            return Ok(log);
        }
        // Not those of a long run that were exported before: all together may be very large.
        let shown = log.iter().filter(|recorded| needs_texts(&recorded.fact, recorded.seq <= range.exported_until));
        let (contents, mut known) = (shown.map(|recorded| recorded.fact.content()), Payloads::new());
        inline::fetch(&*self.store, pk, &contents.collect::<Vec<_>>(), &mut known).await?;
        let whole = |recorded: Recorded| Recorded { fact: recorded.fact.inlined(&known), ..recorded };
        Ok(log.into_iter().map(whole).collect())
    }
}

/// Spans that are sent together, and the indices of their deliveries.
#[derive(Default)]
struct SpanGroup {
    indices: Vec<usize>,
    spans: Vec<Spans>,
}

impl SpanGroup {
    fn add(&mut self, index: usize, spans: Spans) {
        self.indices.push(index);
        self.spans.push(spans);
    }

    fn is_full(&self) -> bool {
        let sum = |of: fn(&Spans) -> usize| self.spans.iter().map(of).sum::<usize>();
        sum(Spans::count) >= MAX_GROUP_SPANS || sum(Spans::bytes) >= MAX_GROUP_BYTES
    }

    /// Sends all at once. If the collector rejects that, sends each alone, so that one bad range does not affect the others.
    async fn send(self, traces: &Traces, until: Instant, results: &mut [Option<AttemptResult>]) {
        let send = async |spans: &[Spans]| {
            let result = timeout_at(until, traces.send(spans)).await;
            let result = result.unwrap_or_else(|_| ExportResult::Failed(TIMED_OUT.to_owned()));
            if let ExportResult::Accepted { rejected } = &result {
                let all = spans.iter().map(Spans::count).sum::<usize>();
                count_spans("refused", all.min(*rejected));
                count_spans("sent", all.saturating_sub(*rejected));
            }
            result
        };
        let result = send(&self.spans).await;
        let must_split = matches!(result, ExportResult::Rejected(_)) && self.spans.len() > 1;
        for (index, spans) in self.indices.into_iter().zip(&self.spans) {
            let result = if must_split { send(std::slice::from_ref(spans)).await } else { result.clone() };
            results[index] = Some(match result {
                ExportResult::Accepted { .. } => AttemptResult::Delivered(format!("{} spans", spans.count())),
                ExportResult::Failed(why) => AttemptResult::Failed(why),
                ExportResult::Rejected(why) => {
                    count_spans("refused", spans.count());
                    AttemptResult::Undeliverable(why)
                }
            });
        }
    }
}

/// Whether the step ends an activation: it ends the run, or brings it to wait for a person, or something was done while it
/// waited. `before` is the status of the thread before the step, and the machine is that after it.
fn ends_activation(run: &Run, step: &Step, before: ThreadStatus, machine: &dyn Machine) -> bool {
    let mut records = step.records.iter().filter(|record| record.run_id == run.run_id);
    let has_worked = records.any(|record| !is_no_work(&record.fact));
    match run.status {
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
        RunStatus::Suspended => has_worked || before != ThreadStatus::Suspended,
        RunStatus::Running => has_worked && is_asking_meanwhile(machine),
        RunStatus::Queued | RunStatus::Waiting => false,
    }
}

/// Whether nothing runs but calls that wait for a person's answer themselves.
fn is_asking_meanwhile(machine: &dyn Machine) -> bool {
    let running = machine.running();
    let asks = |effect: &Effect| match effect {
        Effect::CallTool { call, .. } => machine.asked(call).is_some_and(|question| question.reply.is_none()),
        Effect::AskPeer { .. } | Effect::CancelPeer { .. } => true,
        Effect::CallModel { .. } | Effect::Delegate { .. } => false,
    };
    running.iter().all(asks) && running.iter().any(|effect| !effect.is_background())
}

/// Whether the run continues and its last export is long ago.
fn is_due(run: &Run, progress: Option<&ExportProgress>, step: &Step, now: Millis) -> bool {
    let has_stopped = run.status.is_terminal() || run.status == RunStatus::Suspended;
    let last = progress.map(|progress| progress.at).max(run.started_at).unwrap_or(run.since).max(run.since);
    !has_stopped && now - last >= EXPORT_INTERVAL && step.records.iter().any(|record| record.run_id == run.run_id)
}
