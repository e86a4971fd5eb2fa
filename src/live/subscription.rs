//! One reader of a thread's live frames.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;

use super::hub::Hub;
use super::queue::Queue;
use super::{Live, Wants};
use crate::domain::ids::ThreadPk;

/// Dropping it unsubscribes.
pub struct Subscription {
    pub(super) hub: Arc<Hub>,
    pub(super) pk: ThreadPk,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) joins: bool,
}

pub(super) struct Subscriber {
    pub(super) wants: Wants,
    pub(super) queue: Mutex<Queue>,
}

impl Subscriber {
    /// Puts something into the queue and wakes the reader.
    pub(super) fn put(&self, put: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue.lock();
        put(&mut queue);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Subscription {
    /// From here on tokens that wait in a row are one frame. Else all who keep up receive the same frames.
    pub fn join_tokens(&mut self) {
        self.joins = true;
    }

    /// The reader has read the log up to this seq, and need not be told of it.
    pub fn has_read(&self, seq: i64) {
        self.subscriber.queue.lock().read = seq;
    }

    /// The next thing to send. Cancel safe: a dropped future takes nothing.
    pub async fn next(&mut self) -> Live {
        poll_fn(|context| {
            let mut queue = self.subscriber.queue.lock();
            match queue.take(self.joins) {
                Some(live) => Poll::Ready(live),
                None => {
                    queue.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// What waits already, if anything: so that several frames can go out in one write.
    pub fn try_next(&mut self) -> Option<Live> {
        self.subscriber.queue.lock().take(self.joins)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.unsubscribe(self.pk, &self.subscriber);
    }
}
