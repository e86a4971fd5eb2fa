//! Bounds the memory of long queries that are decided on at the same time, with what is decided with them: the tools of the
//! client, the messages that no longer count because the thread goes back. A copy of a thread counts like a query. From its
//! decision until its commit the text of a query exists several times: in the machine, the records, the rows and the entry
//! of the log. So many clients that send long queries at the same moment would need many times the memory of their requests.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::domain::message::ConversationMessage;
use crate::domain::payload::approximate_bytes;
use crate::domain::run::Ask;
use crate::engine::event::{Event, PersonEvent};

/// How many KiB of long queries are decided on at once, over all threads.
const MOST_KIB: u32 = 16 << 10;

/// Shorter queries do not wait.
const LONG_BYTES: usize = 128 << 10;

pub(super) struct LongQueries(Semaphore);

impl LongQueries {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(MOST_KIB as usize))
    }

    /// Waits until there is room for the long queries among these events, if there are any. The room is taken until the permit
    /// is dropped. What is larger than the whole room waits until it has all of it.
    pub(super) async fn room_for(&self, events: &[Arc<Event>]) -> Option<SemaphorePermit<'_>> {
        let bytes: usize = events.iter().map(|event| query_bytes(event)).sum();
        if bytes <= LONG_BYTES {
            return None;
        }
        let kib = u32::try_from(bytes >> 10).unwrap_or(MOST_KIB).min(MOST_KIB);
        Some(self.0.acquire_many(kib).await.expect("it is never closed"))
    }
}

fn query_bytes(event: &Event) -> usize {
    match event {
        Event::Asked { ask, rewind, .. } => {
            let Ask { query, metadata, history, settings, .. } = &**ask;
            let metadata = metadata.iter().flat_map(|metadata| metadata.values()).map(approximate_bytes);
            let history = history.iter().map(|message| message.content.len());
            let superseded = rewind.iter().flat_map(|rewind| &rewind.superseded);
            let superseded = superseded.map(|(_, message)| message.approximate_bytes());
            let tools = settings.client_tools.iter();
            let tools = tools.map(|tool| tool.description.len() + approximate_bytes(&tool.input_schema));
            query.len() + metadata.chain(history).chain(superseded).chain(tools).sum::<usize>()
        }
        Event::Person(PersonEvent::Forked { messages, .. }) => {
            messages.iter().map(ConversationMessage::approximate_bytes).sum()
        }
        Event::Cancel(_) | Event::Model(_) | Event::Tool(_) | Event::Peer(_) | Event::Person(_) | Event::System(_) => 0,
    }
}
