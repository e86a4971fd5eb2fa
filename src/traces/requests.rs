//! Spans of requests, as they are answered. They are told at best: they wait in a ring, and go out a second later. What a killed
//! process had in its ring is lost, and so is the oldest where more is answered than a collector takes.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::names;
use super::otlp::TraceId;
use super::span::{Kind, Span, SpanId};
use super::{Sent, Traces, flags_of, trace_bytes};
use crate::domain::Millis;
use crate::domain::trace::TraceOrigin;

/// Spans that wait at most.
const PLACES: usize = 2_048;
/// Between two times of sending.
const PAUSE: Duration = Duration::from_secs(1);
/// Where the collector took nothing.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// What the last of them may hold up the end of the process.
const LAST: Duration = Duration::from_secs(1);

/// Spans of requests that the collector was not told of.
#[derive(Default)]
pub(super) struct Ring(Mutex<VecDeque<(TraceId, Span)>>);

impl Ring {
    /// The oldest goes, where there is no place.
    fn push(&self, trace: TraceId, span: Span) {
        let mut waiting = self.0.lock();
        if waiting.len() >= PLACES {
            waiting.pop_front();
            count("dropped", 1);
        }
        waiting.push_back((trace, span));
    }

    fn take(&self) -> Vec<(TraceId, Span)> {
        self.0.lock().drain(..).collect()
    }

    /// As many of the newest as there are places for; they are older than what came meanwhile.
    fn put_back(&self, spans: Vec<(TraceId, Span)>) {
        let mut waiting = self.0.lock();
        let lost = (spans.len() + waiting.len()).saturating_sub(PLACES).min(spans.len());
        for span in spans.into_iter().skip(lost).rev() {
            waiting.push_front(span);
        }
        drop(waiting);
        count("dropped", lost);
    }
}

/// What a request asks for.
pub struct Asked<'a> {
    pub method: &'a str,
    /// As it is declared; `None`: there is no such path.
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
    /// Begins the span of a request of this trace, if the trace is told: from here on it is the parent of what is asked for.
    pub fn begin_request(
        &self,
        trace_id: &str,
        origin: &mut TraceOrigin,
        asked: &Asked<'_>,
        at: Millis,
    ) -> Option<RequestSpan> {
        let marked = self.marked(trace_id, origin.clone());
        marked.flags.as_deref().and_then(flags_of).filter(|flags| flags & 1 == 1)?;
        let trace = trace_bytes(trace_id)?;
        let name = asked.route.map_or_else(|| asked.method.to_owned(), |route| format!("{} {route}", asked.method));
        let mut span = Span::begun(SpanId::new(), name, Kind::Server, at);
        span.parent = marked.parent.as_deref().and_then(SpanId::read);
        span.set(names::HTTP_METHOD, asked.method.to_owned());
        span.set_some(names::HTTP_ROUTE, asked.route.map(str::to_owned));
        span.set(names::URL_PATH, asked.path.to_owned());
        span.set(names::URL_SCHEME, asked.scheme.to_owned());
        *origin = TraceOrigin { parent: Some(span.id.to_string()), ..marked };
        Some(RequestSpan { trace, span })
    }

    /// It was answered with this status, and this code if it broke; `None`: it was dropped before its answer.
    pub fn end_request(&self, request: RequestSpan, status: Option<u16>, code: Option<&str>, at: Millis) {
        let RequestSpan { trace, mut span } = request;
        span.end = at.max(span.start);
        span.set_some(names::HTTP_STATUS, status.map(u32::from));
        if let Some(code) = code {
            span.fail(code, code);
        }
        self.ring.push(trace, span);
    }

    /// Sends what waits, until `closing`, and then what is left.
    pub async fn send_requests(&self, closing: CancellationToken) {
        let mut pause = PAUSE;
        while closing.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = self.flush(self.attempt).await;
        }
        self.flush(LAST.min(self.attempt)).await;
    }

    /// How long to wait for the next time.
    async fn flush(&self, at_most: Duration) -> Duration {
        let spans = self.ring.take();
        match self.send_spans(spans.iter(), at_most).await {
            Sent::Taken => count("sent", spans.len()),
            Sent::Refused(why) => {
                let spans = spans.len();
                tracing::warn!(spans, why, "the collector of traces refuses the spans of requests");
                count("refused", spans);
            }
            Sent::Failed(why) => {
                tracing::debug!(why, "the collector of traces took no spans of requests; they are sent again");
                self.ring.put_back(spans);
                return PAUSE_AFTER_FAILURE;
            }
        }
        PAUSE
    }
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!("pes_telemetry_spans_total", "outcome" => outcome).increment(spans as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: Millis) -> (TraceId, Span) {
        ([1; 16], Span::begun(SpanId::new(), "GET /threads".to_owned(), Kind::Server, at))
    }

    #[test]
    fn the_ring_keeps_the_newest_in_order() {
        let ring = Ring::default();
        let begins = |spans: &[(TraceId, Span)]| spans.iter().map(|(_, span)| span.start).collect::<Vec<_>>();
        for at in 0..=PLACES as i64 {
            let (trace, span) = span(at);
            ring.push(trace, span);
        }
        let taken = ring.take();
        assert_eq!(begins(&taken), (1..=PLACES as i64).collect::<Vec<_>>());
        // Meanwhile two more came.
        for at in [5_000, 5_001] {
            let (trace, span) = span(at);
            ring.push(trace, span);
        }
        ring.put_back(taken);
        let expected: Vec<i64> = (3..=PLACES as i64).chain([5_000, 5_001]).collect();
        assert_eq!(begins(&ring.take()), expected);
    }
}
