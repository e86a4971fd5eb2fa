//! A run as spans are made of it: along its log, or along what is decided for it while it goes on.

use super::project::{Projection, Subject};
use super::span::SpanId;
use super::{Part, Spans, Traces, is_sampled, otlp, trace_bytes};
use crate::domain::Millis;
use crate::domain::facts::Fact;
use crate::domain::ids::{ItemId, RunId, ThreadId};
use crate::domain::observation::Recorded;
use crate::domain::run::Run;

/// Everything of a run up to some observation.
#[derive(Clone)]
pub struct FollowedRun {
    trace: otlp::TraceId,
    projection: Projection,
}

impl Traces {
    /// To follow a run that begins. `None`: it is not traced, or its log has to be read anyway, with the payloads that its
    /// spans hold.
    pub fn follow(&self, thread: &ThreadId, run: &Run) -> Option<FollowedRun> {
        let is_sampled = is_sampled(self.sampler, self.ratio, &run.trace_id, &run.trace);
        let is_followed = is_sampled && !self.with_content;
        is_followed.then(|| self.begun(thread, &run.run_id, &run.trace_id, run.trace.parent.as_deref()).ok()).flatten()
    }

    /// The spans of what this part of the log says. `log` is the run's, from its start to the part's end. The error says why
    /// there are none, and never will be.
    pub fn spans(&self, part: &Part, log: &[Recorded]) -> Result<Spans, String> {
        let Some(first) = log.first() else { return Ok(Spans(Vec::new())) };
        let mut run = self.begun(&first.thread_id, &part.run_id, &part.trace_id, part.parent.as_deref())?;
        for recorded in log {
            run.take(recorded.seq, recorded.parent_id.as_ref(), recorded.timestamp, &recorded.fact);
        }
        Ok(run.spans(part))
    }

    fn begun(
        &self,
        thread: &ThreadId,
        run: &RunId,
        trace_id: &str,
        parent: Option<&str>,
    ) -> Result<FollowedRun, String> {
        let trace = trace_bytes(trace_id).ok_or_else(|| format!("`{trace_id}` is no trace id"))?;
        let projection = Projection::new(Subject {
            thread: thread.clone(),
            run: run.clone(),
            trace_id: trace_id.to_owned(),
            parent: parent.and_then(SpanId::read),
            with_content: self.with_content,
        });
        Ok(FollowedRun { trace, projection })
    }
}

impl FollowedRun {
    /// Takes what comes next in the run: under this number, of this item, if it is an item's, at this time.
    pub fn take(&mut self, seq: i64, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        self.projection.take(seq, item, at, fact);
    }

    /// What is to be told of a part that ends with what was taken last.
    pub fn spans(self, part: &Part) -> Spans {
        let Self { trace, projection } = self;
        Spans(projection.spans(part).into_iter().map(|span| (trace, span)).collect())
    }

    /// How many spans it came to.
    pub fn count(&self) -> usize {
        self.projection.count()
    }
}
