//! Polls the rare events of an open stream, so that sending a frame does not poll any of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A gate before a group of futures that are rarely ready. They are polled once at first, and then only after one of
/// them has woken the task.
pub(super) struct PollGate {
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
    pub(super) fn new() -> Self {
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: woken.clone().into(), woken }
    }

    /// `poll` must poll the futures in turn until one is ready.
    pub(super) fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
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

#[cfg(test)]
mod tests;
