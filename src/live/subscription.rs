//! One reader of a thread's live frames.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;

use super::hub::Hub;
use super::queue::Queue;
use super::{Live, SubscriptionFilter};
use crate::domain::ids::ThreadPk;

/// Dropping it unsubscribes.
pub struct Subscription {
    pub(super) hub: Arc<Hub>,
    pub(super) pk: ThreadPk,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) joins_tokens: bool,
}

pub(super) struct Subscriber {
    pub(super) filter: SubscriptionFilter,
    pub(super) queue: Mutex<Queue>,
}

impl Subscriber {
    /// Has `push` put something into the queue, and wakes the reader.
    pub(super) fn enqueue(&self, push: impl FnOnce(&mut Queue)) {
        let mut queue = self.queue.lock();
        push(&mut queue);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Subscription {
    /// From here on, adjacent tokens in the queue become one frame. Without it, all subscribers that keep up share the same
    /// frames.
    pub fn join_tokens(&mut self) {
        self.joins_tokens = true;
    }

    /// Records that the reader has read the log up to this seq, so that it gets no gap for it.
    pub fn mark_read(&self, seq: i64) {
        self.subscriber.queue.lock().read_seq = seq;
    }

    /// Waits for the next entry. Cancel safe: a dropped future takes nothing.
    pub async fn next(&mut self) -> Live {
        poll_fn(|context| {
            let mut queue = self.subscriber.queue.lock();
            match queue.take(self.joins_tokens) {
                Some(live) => Poll::Ready(live),
                None => {
                    queue.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The next entry if one is queued, so that several frames can go out in one write.
    pub fn try_next(&mut self) -> Option<Live> {
        self.subscriber.queue.lock().take(self.joins_tokens)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.unsubscribe(self.pk, &self.subscriber);
    }
}
