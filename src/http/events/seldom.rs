//! What an open stream waits for besides its frames: a frame that is due is handed on without asking for any of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Things that are ready seldom. They are polled at first, and then only after one of them has woken its task.
pub(super) struct Seldom {
    alarm: Arc<Alarm>,
    waker: Waker,
}

struct Alarm {
    rang: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Seldom {
    pub(super) fn new() -> Self {
        let alarm = Arc::new(Alarm { rang: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: alarm.clone().into(), alarm }
    }

    /// `poll` polls all of them until one is ready.
    pub(super) fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.alarm.task.register(context.waker());
        if !self.alarm.rang.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            // Those behind it were not asked.
            self.alarm.rang.store(true, Ordering::Release);
        }
        polled
    }
}

#[cfg(test)]
mod tests;
