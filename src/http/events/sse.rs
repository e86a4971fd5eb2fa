//! Frames as server-sent events. A comment every 15 seconds keeps proxies from hanging up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Frames;
use crate::http::front::Front;
use crate::live::{Encoded, EncodedKind};

const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// How soon an event source that lost its connection comes back, in milliseconds.
pub(super) const RETRY_MS: i64 = 1000;

/// The stream ends with its frames, after a gap, and when the server stops.
pub(crate) fn response(front: &Front, frames: Frames) -> Response {
    let mut comments = tokio::time::interval_at(Instant::now() + COMMENT_EVERY, COMMENT_EVERY);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed =
        Feed { frames, comments, front: front.clone(), is_live: false, is_over: false, _open: front.streams.token() };
    let hello = stream::once(async { Ok::<_, Infallible>(Bytes::from(format!("retry: {RETRY_MS}\n\n"))) });
    let events = stream::unfold(feed, |mut feed| async { feed.next().await.map(|bytes| (Ok(bytes), feed)) });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(hello.chain(events))).into_response()
}

struct Feed {
    frames: Frames,
    comments: Interval,
    front: Front,
    /// The backlog is sent: a gap from here on says that this reader is too slow.
    is_live: bool,
    is_over: bool,
    _open: TaskTrackerToken,
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let stopping = self.front.stopping.clone();
        tokio::select! {
            frame = self.frames.next() => frame.map(|frame| self.send(&frame)),
            _ = self.comments.tick() => Some(Bytes::from_static(b": still here\n\n")),
            () = stopping.cancelled() => {
                self.is_over = true;
                Some(Encoded::draining(RETRY_MS).sse())
            }
        }
    }

    fn send(&mut self, frame: &Arc<Encoded>) -> Bytes {
        match frame.kind {
            EncodedKind::CaughtUp => self.is_live = true,
            EncodedKind::Gap => self.is_over = self.is_live,
            EncodedKind::Draining => self.is_over = true,
            EncodedKind::Observation { .. } | EncodedKind::Token | EncodedKind::Run { .. } => {}
        }
        self.comments.reset();
        frame.sse()
    }
}
