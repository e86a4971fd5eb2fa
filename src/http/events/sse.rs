//! Frames as server-sent events. A comment every 15 seconds keeps proxies from hanging up.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Frames;
use crate::http::front::Front;
use crate::live::Encoded;

const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// How soon an event source that lost its connection comes back, in milliseconds.
pub(super) const RETRY_MS: i64 = 1000;

/// Events as they are written.
pub(crate) type Written = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The stream ends with its frames, and when the server stops.
pub(crate) fn response(front: &Front, frames: Frames) -> Response {
    let hello = stream::once(async { Bytes::from(format!("retry: {RETRY_MS}\n\n")) });
    let events = hello.chain(frames.map(|frame| frame.sse()));
    written(front, Box::pin(events), Some(Encoded::draining(RETRY_MS).sse()))
}

/// What is written, with comments in its pauses; `goodbye` when the server stops.
pub(crate) fn written(front: &Front, events: Written, goodbye: Option<Bytes>) -> Response {
    let mut comments = tokio::time::interval_at(Instant::now() + COMMENT_EVERY, COMMENT_EVERY);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let writing =
        Writing { events, comments, front: front.clone(), goodbye, is_over: false, _open: front.streams.token() };
    let events = stream::unfold(writing, |mut writing| async {
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
    events: Written,
    comments: Interval,
    front: Front,
    goodbye: Option<Bytes>,
    is_over: bool,
    _open: TaskTrackerToken,
}

impl Writing {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let stopping = self.front.stopping.clone();
        tokio::select! {
            event = self.events.next() => {
                self.comments.reset();
                event
            }
            _ = self.comments.tick() => Some(Bytes::from_static(b": still here\n\n")),
            () = stopping.cancelled() => {
                self.is_over = true;
                self.goodbye.take()
            }
        }
    }
}
