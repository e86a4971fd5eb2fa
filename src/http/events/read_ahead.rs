//! A stream that is read while something else is waited for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt};

/// What an open stream sends, from where it comes.
pub(super) struct Coming<S: Stream> {
    from: S,
    /// What came while something else was waited for.
    kept: Poll<Option<S::Item>>,
}

impl<S: Stream + Unpin> Coming<S> {
    pub(super) fn new(from: S) -> Self {
        Self { from, kept: Poll::Pending }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        match std::mem::replace(&mut self.kept, Poll::Pending) {
            Poll::Pending => self.from.poll_next_unpin(context),
            kept @ Poll::Ready(_) => kept,
        }
    }

    /// Waits for `work`. The stream is read on meanwhile: it may have a connection to the store, for which others wait,
    /// `work` among them.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.kept.is_pending() {
                self.kept = self.from.poll_next_unpin(context);
            }
            work.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
