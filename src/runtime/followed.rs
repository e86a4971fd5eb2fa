//! Spans of runs that began in this process, so that their logs are not read again: made of what is decided for them, and kept
//! until their deliveries are claimed here. Whoever claims one without them, as another process does, or this one after a
//! failure, reads the log.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::domain::facts::Fact;
use crate::domain::ids::{DeliveryId, RunId, ThreadId};
use crate::domain::run::Run;
use crate::engine::step::Step;
use crate::traces::{FollowedRun, Part, Spans, Traces};

/// A run that came to more spans is followed no further.
const SPANS_OF_A_RUN: usize = 1_024;
/// What waits for its deliveries: spans, or sets of them.
const WAITING: usize = 8_192;

/// The runs of a thread that are followed, as far as they were decided.
#[derive(Default)]
pub(super) struct Followed(HashMap<RunId, FollowedRun>);

impl Followed {
    /// Takes what a step records after this number. `runs` are those that the step is about.
    pub(super) fn take<'r>(
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
                followed.take(seq, record.parent_id.as_ref(), record.timestamp, &record.fact);
            }
        }
        self.0.retain(|_, followed| followed.count() <= SPANS_OF_A_RUN);
    }

    /// The spans of a part that ends with what was taken last; `None`: the run is not followed.
    pub(super) fn spans(&mut self, part: &Part, is_over: bool) -> Option<Spans> {
        let followed = if is_over { self.0.remove(&part.run_id) } else { self.0.get(&part.run_id).cloned() };
        followed.map(|followed| followed.spans(part))
    }
}

/// Spans whose deliveries are not claimed yet.
#[derive(Default)]
pub(super) struct MadeSpans(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    by_delivery: HashMap<DeliveryId, Spans>,
    /// The oldest first; some were taken.
    order: VecDeque<DeliveryId>,
    count: usize,
}

impl MadeSpans {
    /// The oldest go, where there is no place: their logs are read.
    pub(super) fn put(&self, delivery: DeliveryId, spans: Spans) {
        let mut waiting = self.0.lock();
        waiting.count += spans.count();
        waiting.order.push_back(delivery.clone());
        waiting.by_delivery.insert(delivery, spans);
        while let Some(oldest) = waiting.order.front() {
            let is_taken = !waiting.by_delivery.contains_key(oldest);
            if !is_taken && waiting.count <= WAITING && waiting.order.len() <= WAITING {
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

impl Waiting {
    fn take(&mut self, delivery: &DeliveryId) -> Option<Spans> {
        let spans = self.by_delivery.remove(delivery)?;
        self.count -= spans.count();
        Some(spans)
    }
}
