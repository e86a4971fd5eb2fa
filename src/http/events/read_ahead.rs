//! A stream that is read ahead while something else is awaited.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt};

/// A stream with a buffer for one item.
pub(super) struct ReadAhead<S: Stream> {
    inner: S,
    /// An item that came while something else was awaited.
    buffered: Poll<Option<S::Item>>,
}

impl<S: Stream + Unpin> ReadAhead<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, buffered: Poll::Pending }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        match std::mem::replace(&mut self.buffered, Poll::Pending) {
            Poll::Pending => self.inner.poll_next_unpin(context),
            buffered @ Poll::Ready(_) => buffered,
        }
    }

    /// Awaits `work`, and reads the stream meanwhile. The stream may hold a connection to the store that others wait
    /// for, `work` among them.
    pub(super) async fn poll_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.buffered.is_pending() {
                self.buffered = self.inner.poll_next_unpin(context);
            }
            work.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
