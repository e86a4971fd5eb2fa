//! The hub: the subscribers of each thread, and the token streams that are open.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;

use super::changes::{Change, MAX_PENDING_CHANGES};
use super::encoded::Encoded;
use super::publisher::StreamPublisher;
use super::queue::Queue;
use super::stream::{Channel, OpenStream};
use super::subscription::{Subscriber, Subscription};
use super::{StreamHead, SubscriptionFilter};
use crate::domain::frame::ToolStarted;
use crate::domain::ids::ThreadPk;
use crate::domain::observation::Observation;
use crate::domain::run::RunResource;

pub struct Hub {
    queue_bytes: usize,
    threads: Mutex<Threads>,
    pub(super) changes: broadcast::Sender<Change>,
}

#[derive(Default)]
struct Threads {
    /// Only threads that have a subscriber or an open stream.
    topics: HashMap<ThreadPk, Arc<Mutex<Topic>>>,
    draining: Option<i64>,
}

#[derive(Default)]
pub(super) struct Topic {
    pub(super) subscribers: Vec<Arc<Subscriber>>,
    streams: Vec<Arc<OpenStream>>,
    /// The highest seq that the subscribers know of: it was published here, or they read it or got a gap for it.
    announced_seq: i64,
}

impl Topic {
    fn publish(&self, accepts: impl Fn(&SubscriptionFilter) -> bool, encode: impl FnOnce() -> Encoded) {
        let mut accepting = self.subscribers.iter().filter(|subscriber| accepts(&subscriber.filter)).peekable();
        if accepting.peek().is_none() {
            return;
        }
        let frame = Arc::new(encode());
        for subscriber in accepting {
            subscriber.enqueue(|queue| queue.push_frame(&frame));
        }
    }
}

impl Hub {
    /// `queue_bytes` bounds the queue of one subscriber.
    pub fn new(queue_bytes: usize) -> Arc<Self> {
        Arc::new(Self { queue_bytes, threads: Mutex::default(), changes: broadcast::channel(MAX_PENDING_CHANGES).0 })
    }

    /// Publishes an observation. It must be committed, with its payloads inlined.
    pub fn publish_observation(&self, pk: ThreadPk, observation: Observation) {
        let Some(topic) = self.topic(pk) else { return };
        let (mut topic, kind) = (topic.lock(), observation.kind);
        topic.announced_seq = topic.announced_seq.max(observation.seq);
        topic.publish(|filter| filter.includes(kind), || Encoded::observation(observation));
    }

    /// Publishes the new state of a run, which a commit changed after this seq.
    pub fn publish_run(&self, pk: ThreadPk, run: &RunResource, after: i64) {
        if let Some(topic) = self.topic(pk) {
            topic.lock().publish(|_| true, || Encoded::run(run, after));
        }
    }

    /// Publishes that a tool call starts. `started` is called if there are subscribers.
    pub fn publish_tool_started(&self, pk: ThreadPk, started: impl FnOnce() -> ToolStarted) {
        if let Some(topic) = self.topic(pk) {
            topic.lock().publish(|_| true, || Encoded::tool_started(&started()));
        }
    }

    /// Has all subscribers read from the log what they have not seen: something was committed without frames for them,
    /// because nobody had subscribed at the time of the decision.
    pub fn publish_gap(&self, pk: ThreadPk) {
        let Some(topic) = self.topic(pk) else { return };
        for subscriber in &topic.lock().subscribers {
            subscriber.enqueue(Queue::push_gap);
        }
    }

    /// The log reaches up to `seq`. Sends a gap to each subscriber that has neither read nor received all of it here, because
    /// another process wrote it.
    pub fn publish_gap_up_to(&self, pk: ThreadPk, seq: i64) {
        let Some(topic) = self.topic(pk) else { return };
        let mut topic = topic.lock();
        if topic.announced_seq < seq {
            topic.announced_seq = seq;
            for subscriber in topic.subscribers.iter().filter(|subscriber| subscriber.queue.lock().read_seq < seq) {
                subscriber.enqueue(Queue::push_gap);
            }
        }
    }

    /// The log went back to an earlier state, and ends at `seq` now. Sends a gap to all subscribers: what they know of may be
    /// there no more.
    pub fn publish_shortened(&self, pk: ThreadPk, seq: i64) {
        let Some(topic) = self.topic(pk) else { return };
        let mut topic = topic.lock();
        topic.announced_seq = seq;
        for subscriber in &topic.subscribers {
            subscriber.enqueue(Queue::push_gap);
        }
    }

    /// Opens a stream. Late subscribers get its text until the publisher is dropped.
    pub fn open_stream(self: &Arc<Self>, pk: ThreadPk, head: StreamHead) -> StreamPublisher {
        let stream = Arc::new(OpenStream::new(head));
        let mut threads = self.threads();
        let topic = threads.topics.entry(pk).or_default();
        topic.lock().streams.push(stream.clone());
        StreamPublisher { hub: self.clone(), pk, topic: topic.clone(), stream }
    }

    /// Notifies every subscriber that the server stops, also those that subscribe later.
    pub fn publish_draining(&self, retry_in_ms: i64) {
        let mut threads = self.threads();
        if threads.draining.replace(retry_in_ms).is_some() {
            return;
        }
        for topic in threads.topics.values() {
            for subscriber in &topic.lock().subscribers {
                subscriber.enqueue(|queue| queue.push_draining(retry_in_ms));
            }
        }
    }

    /// Subscribes to everything published from now on. The text of the open streams so far comes first: one token frame for
    /// each stream and token type.
    pub fn subscribe(self: &Arc<Self>, pk: ThreadPk, filter: SubscriptionFilter) -> Subscription {
        let mut queue = Queue::new(self.queue_bytes);
        let mut threads = self.threads();
        if let Some(retry_in_ms) = threads.draining {
            queue.push_draining(retry_in_ms);
        }
        let topic = threads.topics.entry(pk).or_default();
        let mut topic = topic.lock();
        if filter.tokens {
            for stream in &topic.streams {
                Channel::ALL.into_iter().for_each(|channel| queue.push_catch_up(stream, channel));
            }
        }
        let subscriber = Arc::new(Subscriber { filter, queue: Mutex::new(queue) });
        topic.subscribers.push(subscriber.clone());
        Subscription { hub: self.clone(), pk, subscriber, joins_tokens: false }
    }

    /// Whether the thread has subscribers. A later subscriber reads what is committed by then from the store.
    pub fn has_subscribers(&self, pk: ThreadPk) -> bool {
        self.topic(pk).is_some_and(|topic| !topic.lock().subscribers.is_empty())
    }

    /// The threads that have subscribers.
    pub fn subscribed_threads(&self) -> Vec<ThreadPk> {
        let threads = self.threads();
        let has_subscribers = |(_, topic): &(&ThreadPk, &Arc<Mutex<Topic>>)| !topic.lock().subscribers.is_empty();
        threads.topics.iter().filter(has_subscribers).map(|(pk, _)| *pk).collect()
    }

    /// The number of threads that take memory here.
    #[cfg(any(test, feature = "internals"))]
    pub fn topic_count(&self) -> usize {
        self.threads().topics.len()
    }

    pub(super) fn unsubscribe(&self, pk: ThreadPk, subscriber: &Arc<Subscriber>) {
        self.remove_from(pk, |topic| topic.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber)));
    }

    pub(super) fn close_stream(&self, pk: ThreadPk, stream: &Arc<OpenStream>) {
        self.remove_from(pk, |topic| topic.streams.retain(|other| !Arc::ptr_eq(other, stream)));
    }

    fn topic(&self, pk: ThreadPk) -> Option<Arc<Mutex<Topic>>> {
        self.threads().topics.get(&pk).cloned()
    }

    /// Removes something from a topic, and the topic when nothing is left in it. Code that adds to a topic holds the map's lock
    /// too, so nothing is added to a topic that was removed.
    fn remove_from(&self, pk: ThreadPk, remove: impl FnOnce(&mut Topic)) {
        let mut threads = self.threads();
        let Some(topic) = threads.topics.get(&pk) else { return };
        let mut held = topic.lock();
        remove(&mut held);
        let is_idle = held.subscribers.is_empty() && held.streams.is_empty();
        drop(held);
        if is_idle {
            threads.topics.remove(&pk);
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock()
    }
}
