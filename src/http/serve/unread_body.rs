//! What a request's handler leaves of the body, as a refusal does. The rest has to be read before the connection can serve
//! another request; if it is not, the response must say that the connection closes, or the client's next request is lost.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The largest rest that is read for the sake of the connection.
const MOST_DISCARDED_BYTES: u64 = 64 << 10;
/// How long the response waits for that rest, which the client may still be sending.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The body as its handler reads it. If it is dropped before its end, the rest goes to its `UnreadBody`.
pub(super) struct HandlerBody {
    /// `None` after its end.
    incoming: Option<Incoming>,
    unread: Option<oneshot::Sender<Incoming>>,
}

/// Receives the body if it is dropped before its end.
pub(super) struct UnreadBody(oneshot::Receiver<Incoming>);

pub(super) fn split(incoming: Incoming) -> (HandlerBody, UnreadBody) {
    let (unread, rest) = oneshot::channel();
    (HandlerBody { incoming: Some(incoming), unread: Some(unread) }, UnreadBody(rest))
}

impl UnreadBody {
    /// Reads what is left, if it is little. `false`: some of it is still unread. The client sends a body that it only
    /// announced (`Expect: 100-continue`) when reading begins, so that is not begun here.
    pub(super) async fn discard(mut self, is_announced: bool) -> bool {
        let Ok(mut rest) = self.0.try_recv() else { return true };
        if is_announced {
            return false;
        }
        let all = async {
            let mut read = 0;
            while read + rest.size_hint().lower() <= MOST_DISCARDED_BYTES {
                match poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await {
                    None => return true,
                    Some(Ok(frame)) => read += frame.data_ref().map_or(0, |data| data.len() as u64),
                    Some(Err(_)) => return false,
                }
            }
            false
        };
        timeout(DISCARD_TIMEOUT, all).await.unwrap_or(false)
    }
}

impl HttpBody for HandlerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(incoming).poll_frame(context);
        // Of a body in chunks, `is_end_stream` does not say that it was read.
        if matches!(polled, Poll::Ready(None)) {
            self.incoming = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for HandlerBody {
    fn drop(&mut self) {
        if let (Some(incoming), Some(unread)) = (self.incoming.take(), self.unread.take())
            && !incoming.is_end_stream()
        {
            // Nobody receives it after the response has begun.
            let _ = unread.send(incoming);
        }
    }
}
