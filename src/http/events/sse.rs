//! Frames as server-sent events. A comment every 15 seconds keeps proxies from hanging up.

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

use super::coming::Coming;
use super::seldom::Seldom;
use super::{Frames, every};
use crate::auth::{LOOK_AGAIN, Pass};
use crate::http::app_state::AppState;
use crate::http::metrics::OpenStream;
use crate::live::Encoded;

const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// How soon an event source that lost its connection comes back, in milliseconds.
pub(super) const RETRY_MS: i64 = 1000;

/// Events as they are written.
pub(crate) type Written = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The stream ends with its frames, and when the server stops.
pub(crate) fn response(app: &AppState, pass: Pass, frames: Frames) -> Response {
    // No blank line: it belongs to the first event. Some readers take a block without data for an empty event.
    let hello = stream::once(async { Bytes::from(format!("retry: {RETRY_MS}\n")) });
    let events = hello.chain(frames.map(|few| one_piece(&few)).filter(|piece| ready(!piece.is_empty())));
    let last_words = LastWords { stopping: Encoded::draining(RETRY_MS).sse(), ..LastWords::default() };
    written(app, pass, Box::pin(events), last_words)
}

fn one_piece(few: &[Arc<Encoded>]) -> Bytes {
    match few {
        [one] => one.sse(),
        _ => few.iter().map(|frame| frame.sse()).collect::<Vec<_>>().concat().into(),
    }
}

/// What a stream says last that ends before its own end; where that is nothing, it just ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWords {
    /// The server stops.
    pub(crate) stopping: Bytes,
    /// The pass is worth nothing any more.
    pub(crate) revoked: Bytes,
}

/// What is written, with comments in its pauses. It ends early, with its last words, when the server stops and when the
/// pass is worth nothing any more.
pub(crate) fn written(app: &AppState, pass: Pass, events: Written, last_words: LastWords) -> Response {
    let writing = Writing {
        events: Coming::new(events),
        comments: every(COMMENT_EVERY),
        written_at: Instant::now(),
        looks: every(LOOK_AGAIN),
        stopping: Box::pin(app.stopping.clone().cancelled_owned()),
        others: Seldom::new(),
        app: app.clone(),
        pass,
        last_words,
        is_over: false,
        _open: (app.streams.token(), OpenStream::begin("sse")),
    };
    // Boxed: it is moved with each event.
    let events = stream::unfold(Box::new(writing), |mut writing| async {
        writing.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), writing))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct Writing {
    events: Coming<Written>,
    comments: Interval,
    /// When something was written last.
    written_at: Instant,
    looks: Interval,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// For all of those but the events.
    others: Seldom,
    app: AppState,
    pass: Pass,
    last_words: LastWords,
    is_over: bool,
    _open: (TaskTrackerToken, OpenStream),
}

/// What a stream waits for.
enum Due {
    Event(Option<Bytes>),
    Look,
    Comment,
    Stopping,
}

impl Writing {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        loop {
            match poll_fn(|context| self.poll_due(context)).await {
                Due::Event(event) => {
                    self.written_at = Instant::now();
                    return event;
                }
                Due::Look => {
                    if let Some(ended) = self.events.beside(self.app.keys.ended(&self.pass)).await {
                        let why = Bytes::from(format!(": {}\n", ended.why()));
                        return self.end(|words| [why, words.revoked].concat().into());
                    }
                }
                Due::Comment => {
                    let next = self.written_at + COMMENT_EVERY;
                    if next <= Instant::now() {
                        self.written_at = Instant::now();
                        return Some(Bytes::from_static(b": still here\n"));
                    }
                    self.comments.reset_at(next);
                }
                Due::Stopping => return self.end(|words| words.stopping),
            }
        }
    }

    /// Events go before a comment, and before the stop: those that end by themselves as the server stops have had their last
    /// words.
    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<Due> {
        let other = self.others.poll(context, |context| {
            if self.looks.poll_tick(context).is_ready() {
                return Poll::Ready(Due::Look);
            }
            if self.comments.poll_tick(context).is_ready() {
                return Poll::Ready(Due::Comment);
            }
            self.stopping.as_mut().poll(context).map(|()| Due::Stopping)
        });
        match other {
            Poll::Ready(Due::Look | Due::Event(_)) => other,
            Poll::Ready(Due::Comment | Due::Stopping) | Poll::Pending => match self.events.poll(context) {
                Poll::Ready(event) => Poll::Ready(Due::Event(event)),
                Poll::Pending => other,
            },
        }
    }

    fn end(&mut self, which: impl FnOnce(LastWords) -> Bytes) -> Option<Bytes> {
        self.is_over = true;
        Some(which(std::mem::take(&mut self.last_words))).filter(|words| !words.is_empty())
    }
}
