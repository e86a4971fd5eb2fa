//! The hub: who listens to which thread, and which streams are open.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;

use super::changes::{Change, WAITING};
use super::encoded::Encoded;
use super::queue::Queue;
use super::stream::{Channel, OpenStream};
use super::subscription::{Subscriber, Subscription};
use super::{StreamHead, Wants};
use crate::domain::frame::ToolStarted;
use crate::domain::ids::{StreamId, ThreadPk};
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
struct Topic {
    subscribers: Vec<Arc<Subscriber>>,
    streams: Vec<(StreamId, Arc<OpenStream>)>,
    /// The seq of the last observation that was published here, or that whoever listened has read or was told to read.
    told: i64,
}

impl Topic {
    fn publish(&self, wanted: impl Fn(&Wants) -> bool, encode: impl Fn() -> Encoded) {
        let mut frame = None;
        for subscriber in self.subscribers.iter().filter(|subscriber| wanted(&subscriber.wants)) {
            let frame = frame.get_or_insert_with(|| Arc::new(encode()));
            subscriber.put(|queue| queue.frame(frame));
        }
    }
}

impl Hub {
    /// `queue_bytes` bounds what waits for one subscriber.
    pub fn new(queue_bytes: usize) -> Arc<Self> {
        Arc::new(Self { queue_bytes, threads: Mutex::default(), changes: broadcast::channel(WAITING).0 })
    }

    /// Publishes an observation. It must be committed, and hold its payloads inlined.
    pub fn observation(&self, pk: ThreadPk, observation: &Observation) {
        let Some(topic) = self.topic(pk) else { return };
        let mut topic = topic.lock();
        topic.told = topic.told.max(observation.seq);
        topic.publish(|wants| wants.includes(observation.kind), || Encoded::observation(observation));
    }

    pub fn run(&self, pk: ThreadPk, run: &RunResource) {
        if let Some(topic) = self.topic(pk) {
            topic.lock().publish(|_| true, || Encoded::run(run));
        }
    }

    /// Says that a tool call begins.
    pub fn tool_started(&self, pk: ThreadPk, started: &ToolStarted) {
        if let Some(topic) = self.topic(pk) {
            topic.lock().publish(|_| true, || Encoded::tool_started(started));
        }
    }

    /// Tells everybody to read again what they have not seen: something was committed while nobody listened, and
    /// somebody does by now.
    pub fn gap(&self, pk: ThreadPk) {
        let Some(topic) = self.topic(pk) else { return };
        for subscriber in &topic.lock().subscribers {
            subscriber.put(Queue::gap);
        }
    }

    /// The log was read up to `seq`: who listens, and has neither read nor been told all of it here, because another process
    /// wrote it, reads it too.
    pub fn read_up_to(&self, pk: ThreadPk, seq: i64) {
        let Some(topic) = self.topic(pk) else { return };
        let mut topic = topic.lock();
        if topic.told < seq {
            topic.told = seq;
            topic.subscribers.iter().filter(|subscriber| subscriber.queue.lock().read < seq).for_each(|subscriber| {
                subscriber.put(Queue::gap);
            });
        }
    }

    /// From here on the stream's tokens are kept for late joiners, until it is closed.
    pub fn open_stream(&self, pk: ThreadPk, head: StreamHead) {
        let stream = Arc::new(OpenStream::new(&head));
        let mut threads = self.threads();
        let topic = threads.topics.entry(pk).or_default();
        topic.lock().streams.push((head.stream_id, stream));
    }

    /// A piece of the stream's text. A stream that is not open says nothing.
    pub fn token(&self, pk: ThreadPk, stream: &StreamId, thinking: bool, text: &str) {
        let Some(topic) = self.topic(pk) else { return };
        let topic = topic.lock();
        let Some((_, open)) = topic.streams.iter().find(|(id, _)| id == stream) else { return };
        if text.is_empty() {
            return;
        }
        let channel = Channel::of(thinking);
        let range = open.append(channel, text);
        for subscriber in topic.subscribers.iter().filter(|subscriber| subscriber.wants.tokens) {
            subscriber.put(|queue| queue.token(open, channel, range.clone()));
        }
    }

    /// Late joiners no longer get its text. What waits in queues is still delivered.
    pub fn close_stream(&self, pk: ThreadPk, stream: &StreamId) {
        self.leave(pk, |topic| topic.streams.retain(|(id, _)| id != stream));
    }

    /// Tells every subscriber, those who come later too.
    pub fn draining(&self, retry_in_ms: i64) {
        let mut threads = self.threads();
        if threads.draining.replace(retry_in_ms).is_some() {
            return;
        }
        for topic in threads.topics.values() {
            for subscriber in &topic.lock().subscribers {
                subscriber.put(|queue| queue.draining(retry_in_ms));
            }
        }
    }

    /// Everything published from now on, and before it what the open streams have said so far: one token frame for each
    /// stream and token type.
    pub fn subscribe(self: &Arc<Self>, pk: ThreadPk, wants: Wants) -> Subscription {
        let mut queue = Queue::new(self.queue_bytes);
        let mut threads = self.threads();
        if let Some(retry_in_ms) = threads.draining {
            queue.draining(retry_in_ms);
        }
        let topic = threads.topics.entry(pk).or_default();
        let mut topic = topic.lock();
        if wants.tokens {
            for (_, stream) in &topic.streams {
                Channel::ALL.into_iter().for_each(|channel| queue.catch_up(stream, channel));
            }
        }
        let subscriber = Arc::new(Subscriber { wants, queue: Mutex::new(queue) });
        topic.subscribers.push(subscriber.clone());
        Subscription { hub: self.clone(), pk, subscriber, joins: false }
    }

    /// Whether anybody listens. Who subscribes later reads what is committed by then from the store.
    pub fn is_watched(&self, pk: ThreadPk) -> bool {
        self.topic(pk).is_some_and(|topic| !topic.lock().subscribers.is_empty())
    }

    /// Every thread that somebody listens to.
    pub fn watched(&self) -> Vec<ThreadPk> {
        let threads = self.threads();
        let is_watched = |(_, topic): &(&ThreadPk, &Arc<Mutex<Topic>>)| !topic.lock().subscribers.is_empty();
        threads.topics.iter().filter(is_watched).map(|(pk, _)| *pk).collect()
    }

    /// The number of threads that take memory here.
    pub fn threads_held(&self) -> usize {
        self.threads().topics.len()
    }

    pub(super) fn unsubscribe(&self, pk: ThreadPk, subscriber: &Arc<Subscriber>) {
        self.leave(pk, |topic| topic.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber)));
    }

    fn topic(&self, pk: ThreadPk) -> Option<Arc<Mutex<Topic>>> {
        self.threads().topics.get(&pk).cloned()
    }

    /// Takes something out of a topic, and the topic away when nothing is left. Who adds to a topic holds the map's lock
    /// too, so that nothing is added to a topic that is gone.
    fn leave(&self, pk: ThreadPk, take: impl FnOnce(&mut Topic)) {
        let mut threads = self.threads();
        let Some(topic) = threads.topics.get(&pk) else { return };
        let mut held = topic.lock();
        take(&mut held);
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
