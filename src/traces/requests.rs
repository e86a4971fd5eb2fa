//! Spans of answered requests. They are exported with best effort: they wait in a ring and go out once a second. The ring of
//! a killed process is lost. When the collector takes fewer than are made, the oldest are dropped.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::names;
use super::otlp::TraceId;
use super::span::{Span, SpanId, SpanKind};
use super::{ExportResult, Traces, count_spans, parse_trace_id};
use crate::domain::Millis;
use crate::domain::trace::TraceOrigin;

/// Bounds the spans that wait.
const MAX_WAITING: usize = 2_048;
/// The pause between two exports.
const EXPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after an export that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Bounds how long the last export may delay the end of the process.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Spans that are not exported yet.
#[derive(Default)]
pub(super) struct Ring(Mutex<VecDeque<(TraceId, Span)>>);

impl Ring {
    /// Adds a span; drops the oldest if the ring is full.
    fn push(&self, trace: TraceId, span: Span) {
        let mut waiting = self.0.lock();
        if waiting.len() >= MAX_WAITING {
            waiting.pop_front();
            count_spans("dropped", 1);
        }
        waiting.push_back((trace, span));
    }

    fn take(&self) -> Vec<(TraceId, Span)> {
        self.0.lock().drain(..).collect()
    }

    /// Puts taken spans back before those that were added since. Drops the oldest of them if the ring is full.
    fn put_back(&self, spans: Vec<(TraceId, Span)>) {
        let mut waiting = self.0.lock();
        let lost = (spans.len() + waiting.len()).saturating_sub(MAX_WAITING).min(spans.len());
        for span in spans.into_iter().skip(lost).rev() {
            waiting.push_front(span);
        }
        drop(waiting);
        count_spans("dropped", lost);
    }
}

/// The attributes of a request.
pub struct RequestInfo<'a> {
    pub method: &'a str,
    /// The declared route; `None`: no route has this path.
    pub route: Option<&'a str>,
    pub path: &'a str,
    pub scheme: &'a str,
}

/// The span of a request that is not answered yet.
#[derive(Debug)]
pub struct RequestSpan {
    trace: TraceId,
    span: Span,
}

impl Traces {
    /// Begins the span of a request, if its trace is sampled. The span becomes the parent in `origin`.
    pub fn begin_request(
        &self,
        trace_id: &str,
        origin: &mut TraceOrigin,
        request: &RequestInfo<'_>,
        at: Millis,
    ) -> Option<RequestSpan> {
        if !self.is_sampled(trace_id, origin) {
            return None;
        }
        let trace = parse_trace_id(trace_id)?;
        let marked = self.with_sampled_flag(trace_id, origin.clone());
        let name =
            request.route.map_or_else(|| request.method.to_owned(), |route| format!("{} {route}", request.method));
        let mut span = Span::new(SpanId::random(), name, SpanKind::Server, at);
        span.parent = marked.parent.as_deref().and_then(SpanId::parse);
        span.set(names::HTTP_METHOD, request.method.to_owned());
        span.set_some(names::HTTP_ROUTE, request.route.map(str::to_owned));
        span.set(names::URL_PATH, request.path.to_owned());
        span.set(names::URL_SCHEME, request.scheme.to_owned());
        *origin = TraceOrigin { parent: Some(span.id.to_string()), ..marked };
        Some(RequestSpan { trace, span })
    }

    /// Ends the span. `status` is `None` if the request was dropped before its answer; `code` is its error, if it failed.
    pub fn end_request(&self, request: RequestSpan, status: Option<u16>, code: Option<&str>, at: Millis) {
        let RequestSpan { trace, mut span } = request;
        span.end = at.max(span.start);
        span.set_some(names::HTTP_STATUS, status.map(u32::from));
        if let Some(code) = code {
            span.fail(code, code);
        }
        self.ring.push(trace, span);
    }

    /// Exports the waiting spans once a second until `closing` is cancelled, then the rest.
    pub async fn export_requests(&self, closing: CancellationToken) {
        let mut pause = EXPORT_INTERVAL;
        while closing.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = self.flush(self.attempt_timeout).await;
        }
        self.flush(LAST_EXPORT_TIMEOUT.min(self.attempt_timeout)).await;
    }

    /// Exports the waiting spans. Returns the pause before the next export.
    async fn flush(&self, timeout: Duration) -> Duration {
        let spans = self.ring.take();
        match self.send_spans(spans.iter(), timeout).await {
            ExportResult::Accepted { rejected } => {
                count_spans("refused", spans.len().min(rejected));
                count_spans("sent", spans.len().saturating_sub(rejected));
            }
            ExportResult::Rejected(why) => {
                let spans = spans.len();
                tracing::warn!(spans, why, "the collector of traces refuses the spans of requests");
                count_spans("refused", spans);
            }
            ExportResult::Failed(why) => {
                tracing::debug!(why, "the collector of traces took no spans of requests; they are sent again");
                self.ring.put_back(spans);
                return RETRY_INTERVAL;
            }
        }
        EXPORT_INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: Millis) -> (TraceId, Span) {
        ([1; 16], Span::new(SpanId::random(), "GET /threads".to_owned(), SpanKind::Server, at))
    }

    #[test]
    fn the_ring_keeps_the_newest_in_order() {
        let ring = Ring::default();
        let begins = |spans: &[(TraceId, Span)]| spans.iter().map(|(_, span)| span.start).collect::<Vec<_>>();
        for at in 0..=MAX_WAITING as i64 {
            let (trace, span) = span(at);
            ring.push(trace, span);
        }
        let taken = ring.take();
        assert_eq!(begins(&taken), (1..=MAX_WAITING as i64).collect::<Vec<_>>());
        // Two more came meanwhile.
        for at in [5_000, 5_001] {
            let (trace, span) = span(at);
            ring.push(trace, span);
        }
        ring.put_back(taken);
        let expected: Vec<i64> = (3..=MAX_WAITING as i64).chain([5_000, 5_001]).collect();
        assert_eq!(begins(&ring.take()), expected);
    }
}
