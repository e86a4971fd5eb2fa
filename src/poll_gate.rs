//! Polls rare events only after they have woken the task, so that the frequent ones do not poll any of them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio_util::sync::CancellationToken;

/// A gate before a group of futures that are rarely ready. They are polled once at first, and then only after one of
/// them has woken the task.
pub(crate) struct PollGate {
    woken: Arc<Woken>,
    waker: Waker,
}

struct Woken {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl PollGate {
    pub(crate) fn new() -> Self {
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: woken.clone().into(), woken }
    }

    /// `poll` must poll the futures in turn until one is ready.
    pub(crate) fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.woken.task.register(context.waker());
        if !self.woken.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            // The futures after the ready one were not polled.
            self.woken.is_woken.store(true, Ordering::Release);
        }
        polled
    }
}

/// Like [`CancellationToken::run_until_cancelled`], but polls the token only after it has woken the task: each poll takes
/// locks that all users of the token share.
pub(crate) async fn run_until_cancelled<W: Future>(token: &CancellationToken, work: W) -> Option<W::Output> {
    if token.is_cancelled() {
        return None;
    }
    let (gate, mut work, mut cancelled) = (PollGate::new(), pin!(work), pin!(token.cancelled()));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => gate.poll(context, |context| cancelled.as_mut().poll(context)).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests;
