//! Building the spans of a run: from its log, or step by step while the run is decided in this process.

use super::project::{Projection, Subject};
use super::span::SpanId;
use super::{LogRange, Spans, Traces, otlp, parse_trace_id};
use crate::domain::Millis;
use crate::domain::facts::Fact;
use crate::domain::ids::{ItemId, RunId, ThreadId};
use crate::domain::observation::Recorded;
use crate::domain::run::Run;

/// The state of building a run's spans, up to some observation.
pub struct FollowedRun {
    trace: otlp::TraceId,
    projection: Projection,
}

impl Traces {
    /// Starts to follow a run that begins. `None`: it is not traced, or its log must be read anyway because its spans contain
    /// payloads.
    pub fn follow(&self, thread: &ThreadId, run: &Run) -> Option<FollowedRun> {
        if self.with_content || !self.is_sampled(&run.trace_id, &run.trace) {
            return None;
        }
        self.new_followed_run(thread, &run.run_id, &run.trace_id, run.trace.parent.as_deref()).ok()
    }

    /// The spans of this range. `log` is the run's log from its start to the end of the range. An error is final: these spans
    /// can never be made.
    pub fn spans(&self, range: &LogRange, log: &[Recorded]) -> Result<Spans, String> {
        let Some(first) = log.first() else { return Ok(Spans(Vec::new())) };
        let mut run =
            self.new_followed_run(&first.thread_id, &range.run_id, &range.trace_id, range.parent.as_deref())?;
        let (before, in_range) = log.split_at(log.partition_point(|recorded| recorded.seq <= range.after));
        let apply = |run: &mut FollowedRun, recorded: &Recorded| {
            run.apply(recorded.seq, recorded.parent_id.as_ref(), recorded.timestamp, &recorded.fact);
        };
        before.iter().for_each(|recorded| apply(&mut run, recorded));
        if !before.is_empty() {
            run.projection.continue_as(range.activation);
        }
        in_range.iter().for_each(|recorded| apply(&mut run, recorded));
        Ok(run.take_spans(range))
    }

    fn new_followed_run(
        &self,
        thread: &ThreadId,
        run: &RunId,
        trace_id: &str,
        parent: Option<&str>,
    ) -> Result<FollowedRun, String> {
        let trace = parse_trace_id(trace_id).ok_or_else(|| format!("`{trace_id}` is no trace id"))?;
        let projection = Projection::new(Subject {
            thread: thread.clone(),
            run: run.clone(),
            trace_id: trace_id.to_owned(),
            parent: parent.and_then(SpanId::parse),
            with_content: self.with_content,
        });
        Ok(FollowedRun { trace, projection })
    }
}

impl FollowedRun {
    /// Applies the next fact of the run.
    pub fn apply(&mut self, seq: i64, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        self.projection.apply(seq, item, at, fact);
    }

    /// Takes the spans of a range that ends with the last applied fact, and that follows the range for which spans were last
    /// taken.
    pub fn take_spans(&mut self, range: &LogRange) -> Spans {
        Spans(self.projection.take_spans(range).into_iter().map(|span| (self.trace, span)).collect())
    }

    /// How many spans have ended and were not taken.
    pub fn count(&self) -> usize {
        self.projection.count()
    }
}
