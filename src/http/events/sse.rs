//! Frames as server-sent events. A comment every 15 seconds keeps proxies from closing the connection.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::{Instant, Interval};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::read_ahead::ReadAhead;
use super::{Frames, delayed_interval};
use crate::auth::{Pass, RECHECK_INTERVAL};
use crate::http::app_state::AppState;
use crate::http::metrics::OpenStream;
use crate::live::Encoded;
use crate::poll_gate::PollGate;

const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// How soon an event source reconnects, in milliseconds.
pub(super) const RETRY_MS: i64 = 1000;

/// Events in their written form.
pub(crate) type EventBytes = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A response of these frames. It ends with them, or when the server stops.
pub(crate) fn response(app: &AppState, pass: Pass, frames: Frames) -> Response {
    // Without a blank line, so that it belongs to the first event. Some readers take a block without data for an empty
    // event.
    let hello = stream::once(async { Bytes::from(format!("retry: {RETRY_MS}\n")) });
    let events = hello.chain(frames.map(|batch| joined(&batch)).filter(|piece| ready(!piece.is_empty())));
    let closing = ClosingEvents { stopping: Encoded::draining(RETRY_MS).sse(), ..ClosingEvents::default() };
    event_response(app, pass, Box::pin(events), closing)
}

fn joined(batch: &[Arc<Encoded>]) -> Bytes {
    match batch {
        [one] => one.sse(),
        _ => batch.iter().map(|frame| frame.sse()).collect::<Vec<_>>().concat().into(),
    }
}

/// The last bytes of a stream that the server ends early. If they are empty, the stream just ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosingEvents {
    /// Sent when the server stops.
    pub(crate) stopping: Bytes,
    /// Sent when the key or session is no longer valid.
    pub(crate) revoked: Bytes,
}

/// A response of these events, with comments during pauses. The server ends it early, with the closing events, when it
/// stops and when the key or session is no longer valid.
pub(crate) fn event_response(app: &AppState, pass: Pass, events: EventBytes, closing: ClosingEvents) -> Response {
    let writer = SseWriter {
        events: ReadAhead::new(events),
        comments: delayed_interval(COMMENT_INTERVAL),
        written_at: Instant::now(),
        credential_checks: delayed_interval(RECHECK_INTERVAL),
        stopping: Box::pin(app.stopping.clone().cancelled_owned()),
        rare_events: PollGate::new(),
        app: app.clone(),
        pass,
        closing,
        is_finished: false,
        _open: (app.streams.token(), OpenStream::begin("sse")),
    };
    // Boxed, because it is moved with each event.
    let events = stream::unfold(Box::new(writer), |mut writer| async {
        writer.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), writer))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct SseWriter {
    events: ReadAhead<EventBytes>,
    comments: Interval,
    /// When something was last written.
    written_at: Instant,
    credential_checks: Interval,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Guards the polling of everything but the events.
    rare_events: PollGate,
    app: AppState,
    pass: Pass,
    closing: ClosingEvents,
    is_finished: bool,
    _open: (TaskTrackerToken, OpenStream),
}

/// What a stream waits for.
enum SseStep {
    Event(Option<Bytes>),
    CheckCredentials,
    Comment,
    Stopping,
}

impl SseWriter {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_finished {
            return None;
        }
        loop {
            match poll_fn(|context| self.poll_step(context)).await {
                SseStep::Event(event) => {
                    self.written_at = Instant::now();
                    return event;
                }
                SseStep::CheckCredentials => {
                    if let Some(ended) = self.events.poll_during(self.app.keys.ended(&self.pass)).await {
                        let why = Bytes::from(format!(": {}\n", ended.why()));
                        return self.end(|closing| [why, closing.revoked].concat().into());
                    }
                }
                SseStep::Comment => {
                    let next = self.written_at + COMMENT_INTERVAL;
                    if next <= Instant::now() {
                        self.written_at = Instant::now();
                        return Some(Bytes::from_static(b": still here\n"));
                    }
                    self.comments.reset_at(next);
                }
                SseStep::Stopping => return self.end(|closing| closing.stopping),
            }
        }
    }

    /// Events are sent before a comment and before the stop. A stream that ends by itself when the server stops has
    /// then sent its own closing events.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<SseStep> {
        let other = self.rare_events.poll(context, |context| {
            if self.credential_checks.poll_tick(context).is_ready() {
                return Poll::Ready(SseStep::CheckCredentials);
            }
            if self.comments.poll_tick(context).is_ready() {
                return Poll::Ready(SseStep::Comment);
            }
            self.stopping.as_mut().poll(context).map(|()| SseStep::Stopping)
        });
        match other {
            Poll::Ready(SseStep::CheckCredentials | SseStep::Event(_)) => other,
            Poll::Ready(SseStep::Comment | SseStep::Stopping) | Poll::Pending => match self.events.poll(context) {
                Poll::Ready(event) => Poll::Ready(SseStep::Event(event)),
                Poll::Pending => other,
            },
        }
    }

    fn end(&mut self, which: impl FnOnce(ClosingEvents) -> Bytes) -> Option<Bytes> {
        self.is_finished = true;
        Some(which(std::mem::take(&mut self.closing))).filter(|closing| !closing.is_empty())
    }
}
