//! Spans of runs that began in this process. They are made from the decisions, so that the log need not be read, and kept
//! until their deliveries are claimed here. Another process that claims such a delivery, or this one after a failure, reads
//! the log.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::domain::facts::Fact;
use crate::domain::ids::{DeliveryId, RunId, ThreadId};
use crate::domain::run::Run;
use crate::engine::step::Step;
use crate::traces::{FollowedRun, LogRange, Spans, Traces};

/// A run with more spans that wait to be exported is no longer followed.
const MAX_SPANS_PER_RUN: usize = 1_024;
/// Bounds the spans that wait for their deliveries, and the sets of them.
const MAX_WAITING: usize = 8_192;

/// The runs of a thread that are followed.
#[derive(Default)]
pub(super) struct FollowedRuns(HashMap<RunId, FollowedRun>);

impl FollowedRuns {
    /// Applies the records of a step, which follow the seq `after`. `runs` are the runs that the step is about.
    pub(super) fn apply<'r>(
        &mut self,
        traces: &Traces,
        thread: &ThreadId,
        runs: impl Iterator<Item = &'r Run> + Clone,
        step: &Step,
        after: i64,
    ) {
        for (record, seq) in step.records.iter().zip(after + 1..) {
            if matches!(record.fact, Fact::RunStarted(_)) {
                let begun = runs.clone().find(|run| run.run_id == record.run_id);
                let followed = begun.and_then(|run| traces.follow(thread, run));
                self.0.extend(followed.map(|followed| (record.run_id.clone(), followed)));
            }
            if let Some(followed) = self.0.get_mut(&record.run_id) {
                followed.apply(seq, record.parent_id.as_ref(), record.timestamp, &record.fact);
            }
        }
        self.0.retain(|_, followed| followed.count() <= MAX_SPANS_PER_RUN);
    }

    /// Takes the spans of a range that ends with the last applied record; `None`: the run is not followed.
    pub(super) fn take_spans(&mut self, range: &LogRange, has_ended: bool) -> Option<Spans> {
        let spans = self.0.get_mut(&range.run_id).map(|followed| followed.take_spans(range));
        if has_ended {
            self.0.remove(&range.run_id);
        }
        spans
    }
}

/// Spans whose deliveries are not claimed yet.
#[derive(Default)]
pub(in crate::runtime) struct PreparedSpans(Mutex<WaitingSpans>);

#[derive(Default)]
struct WaitingSpans {
    by_delivery: HashMap<DeliveryId, Spans>,
    /// The oldest first; some of them were taken already.
    order: VecDeque<DeliveryId>,
    count: usize,
}

impl PreparedSpans {
    /// Stores the spans of a delivery. Drops the oldest beyond the bound: for them the log is read.
    pub(super) fn put(&self, delivery: DeliveryId, spans: Spans) {
        let mut waiting = self.0.lock();
        waiting.count += spans.count();
        waiting.order.push_back(delivery.clone());
        waiting.by_delivery.insert(delivery, spans);
        while let Some(oldest) = waiting.order.front() {
            let is_taken = !waiting.by_delivery.contains_key(oldest);
            if !is_taken && waiting.count <= MAX_WAITING && waiting.order.len() <= MAX_WAITING {
                return;
            }
            if let Some(oldest) = waiting.order.pop_front() {
                waiting.take(&oldest);
            }
        }
    }

    pub(super) fn take(&self, delivery: &DeliveryId) -> Option<Spans> {
        self.0.lock().take(delivery)
    }
}

impl WaitingSpans {
    fn take(&mut self, delivery: &DeliveryId) -> Option<Spans> {
        let spans = self.by_delivery.remove(delivery)?;
        self.count -= spans.count();
        Some(spans)
    }
}
