//! The publisher of one token stream.

use std::sync::Arc;

use parking_lot::Mutex;

use super::hub::{Hub, Topic};
use super::stream::{Channel, OpenStream};
use crate::domain::ids::ThreadPk;

/// An open stream, as the model call that publishes it holds it. When it is dropped, late subscribers no longer get the
/// stream's text. What waits in queues is still delivered.
#[must_use = "the stream is open until its publisher is dropped"]
pub struct StreamPublisher {
    pub(super) hub: Arc<Hub>,
    pub(super) pk: ThreadPk,
    /// The one in the hub's map, which is not removed while the stream is open.
    pub(super) topic: Arc<Mutex<Topic>>,
    pub(super) stream: Arc<OpenStream>,
}

impl StreamPublisher {
    /// Publishes a piece of the text.
    pub fn publish(&self, channel: Channel, text: &str) {
        if text.is_empty() {
            return;
        }
        let topic = self.topic.lock();
        let range = self.stream.append(channel, text);
        for subscriber in topic.subscribers.iter().filter(|subscriber| subscriber.filter.tokens) {
            subscriber.enqueue(|queue| queue.push_token(&self.stream, channel, range.clone()));
        }
    }

    /// The text that was published so far.
    pub fn text(&self, channel: Channel) -> String {
        self.stream.text(channel)
    }
}

impl Drop for StreamPublisher {
    fn drop(&mut self) {
        self.hub.close_stream(self.pk, &self.stream);
    }
}
