//! What an open stream waits for besides its frames: a frame is sent without polling any of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Things that are ready seldom. They are polled at first, and then only after one of them has woken its task.
pub(super) struct Seldom {
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

impl Seldom {
    pub(super) fn new() -> Self {
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: woken.clone().into(), woken }
    }

    /// `poll` polls all of them until one is ready.
    pub(super) fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.woken.task.register(context.waker());
        if !self.woken.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            // Those behind it were not asked.
            self.woken.is_woken.store(true, Ordering::Release);
        }
        polled
    }
}

#[cfg(test)]
mod tests;
