//! The event stream of a task at another agent. Only the task's state is read from it, and what the task asks.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::super::directory::Peer;
use super::super::report::Progress;
use super::super::types::{StreamEvent, TaskQuery};
use super::super::wire::{Binding, Method};
use super::{ChosenInterface, Client, Error, segment};
use crate::domain::depth;
use crate::domain::task::PeerState;
use crate::egress::sse::Decoder;
use crate::egress::{Bounds, IncomingResponse};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The stream is closed if nothing arrives for this long, not even a keep-alive.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum lifetime of a stream.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
/// Maximum size of an event.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// The events of one task. Dropping it closes the stream.
pub struct Events {
    answer: IncomingResponse,
    received: Received,
}

/// What has arrived of a stream.
struct Received {
    decoder: Decoder,
    /// Bytes that are not decoded yet.
    rest: Bytes,
    interface: ChosenInterface,
}

impl Client {
    pub async fn subscribe(&self, peer: &Peer, interface: &ChosenInterface, id: &str) -> Result<Events, Error> {
        let params = interface.version.task_query(&TaskQuery { id: id.to_owned(), ..TaskQuery::default() });
        let path = format!("tasks/{}:subscribe", segment(id));
        let request = interface.request(Method::SubscribeToTask, &path, http::Method::GET, params)?;
        let bounds =
            Bounds { headers: self.bounds.headers, stall: STALL_TIMEOUT, total: MAX_LIFETIME, bytes: usize::MAX };
        let answer = self.answer(peer, interface, request, EVENT_STREAM, bounds).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !answer.status().is_success() || !kind.starts_with("text/event-stream") {
            return Err(Error::Refused(format!("it answers HTTP {} with `{kind}`", answer.status())));
        }
        Ok(Events { answer, received: Received::new(interface.clone()) })
    }
}

impl Events {
    /// Waits for the next event with a task state; `None`: the stream has ended. Nothing is lost if it is dropped while it
    /// waits.
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            if let Some(progress) = self.received.take()? {
                return Some(progress);
            }
            self.received.rest = self.answer.chunk().await.ok()??;
        }
    }
}

impl Received {
    fn new(interface: ChosenInterface) -> Self {
        Self { decoder: Decoder::new(MAX_EVENT_BYTES), rest: Bytes::new(), interface }
    }

    /// The next event with a task state in what has arrived; outer `None`: the stream cannot be read.
    #[expect(clippy::option_option, reason = "whether it can be read, and whether an event is complete")]
    fn take(&mut self) -> Option<Option<Progress>> {
        // The decoder keeps what it has read of an event that is not complete.
        let bytes = std::mem::take(&mut self.rest);
        let mut rest = &*bytes;
        while let Some(event) = self.decoder.next(&mut rest).ok()? {
            if let Some(progress) = progress_of(&self.interface, event)? {
                self.rest = bytes.slice_ref(rest);
                return Some(Some(progress));
            }
        }
        Some(None)
    }
}

/// The task's state in an event, if it has one; outer `None`: the text is no event, or an error.
#[expect(clippy::option_option, reason = "whether it is an event, and whether it tells where the task stands")]
fn progress_of(interface: &ChosenInterface, event: &str) -> Option<Option<Progress>> {
    let mut event = depth::read(event.as_bytes()).ok()?;
    if interface.binding == Binding::JsonRpc {
        event = event.get_mut("result")?.take();
    }
    Some(match interface.version.read_event(&event).ok()? {
        StreamEvent::Task(task) => Some(Progress::of_status(&task.status)),
        StreamEvent::StatusUpdate(update) => Some(Progress::of_status(&update.status)),
        StreamEvent::Message(_) => Some(Progress::new(PeerState::Completed, None, None)),
        StreamEvent::ArtifactUpdate(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::wire::Version;
    use super::*;

    /// Whoever waits for an event gives up after a while, and waits again.
    #[test]
    fn half_an_event_is_read_once_however_often_the_rest_is_waited_for() {
        let url = "http://127.0.0.1/".parse().unwrap();
        let interface = ChosenInterface { url, binding: Binding::HttpJson, version: Version::V1, tenant: None };
        let mut received = Received::new(interface);
        let update = r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
        let event = format!("data: {update}\n\n");
        received.rest = Bytes::from(event[..30].to_owned());
        assert_eq!([received.take(), received.take()], [Some(None), Some(None)]);
        received.rest = Bytes::from(event[30..].to_owned());
        assert_eq!(received.take(), Some(Some(Progress::new(PeerState::Working, None, None))));
        assert_eq!(received.take(), Some(None));
    }
}
