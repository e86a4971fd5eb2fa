//! The event stream of a task at another agent. Only the task's state is read from it.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::super::directory::Peer;
use super::super::seen;
use super::super::types::{StreamEvent, TaskQuery};
use super::super::wire::Method;
use super::{Binding, Client, Error, Line, segment};
use crate::domain::depth;
use crate::domain::task::PeerState;
use crate::egress::sse::Decoder;
use crate::egress::{Answer, Bounds};

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// An agent that says nothing for so long, not even that it is there, is not listened to any longer.
const SILENCE: Duration = Duration::from_secs(600);
/// Streams end some day.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The largest event.
const LARGEST: usize = 4 << 20;

/// The events of one task. Dropping it hangs up.
pub struct Events {
    answer: Answer,
    decoder: Decoder,
    /// What came and is not decoded yet.
    rest: Bytes,
    line: Line,
}

impl Client {
    pub async fn subscribe(&self, peer: &Peer, line: &Line, id: &str) -> Result<Events, Error> {
        let params = line.version.task_query(&TaskQuery { id: id.to_owned(), ..TaskQuery::default() });
        let path = format!("tasks/{}:subscribe", segment(id));
        let request = line.request(Method::SubscribeToTask, &path, http::Method::GET, params)?;
        let bounds = Bounds { headers: self.bounds.headers, stall: SILENCE, total: DAY, bytes: usize::MAX };
        let answer = self.answer(peer, line, request, EVENTS, bounds).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !answer.status().is_success() || !kind.starts_with("text/event-stream") {
            return Err(Error::Refused(format!("it answers HTTP {} with `{kind}`", answer.status())));
        }
        Ok(Events { answer, decoder: Decoder::new(LARGEST), rest: Bytes::new(), line: line.clone() })
    }
}

impl Events {
    /// The task's state, each time an event has one; `None`: the stream has ended.
    pub async fn next(&mut self) -> Option<PeerState> {
        loop {
            let mut rest = &*self.rest;
            while let Some(event) = self.decoder.next(&mut rest).ok()? {
                let state = peer_state_of(&self.line, event)?;
                if let Some(state) = state {
                    self.rest = self.rest.slice_ref(rest);
                    return Some(state);
                }
            }
            self.rest = self.answer.chunk().await.ok()??;
        }
    }
}

/// The task's state in an event, if it has one; `None`: that is no event, or an error.
#[expect(clippy::option_option, reason = "whether it is an event, and whether it tells where the task stands")]
fn peer_state_of(line: &Line, event: &str) -> Option<Option<PeerState>> {
    let mut event = depth::read(event.as_bytes()).ok()?;
    if line.binding == Binding::JsonRpc {
        event = event.get_mut("result")?.take();
    }
    Some(match line.version.read_event(&event).ok()? {
        StreamEvent::Task(task) => Some(seen::state(task.status.state)),
        StreamEvent::StatusUpdate(update) => Some(seen::state(update.status.state)),
        StreamEvent::Message(_) => Some(PeerState::Completed),
        StreamEvent::ArtifactUpdate(_) => None,
    })
}
