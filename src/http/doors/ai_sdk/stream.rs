//! The response: a stream of chunks.

use std::collections::{HashSet, VecDeque};

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;

use super::accept::{AcceptedChat, MessageStart};
use super::calls::KnownCall;
use super::chunk::Chunk;
use super::events::{MessageChunks, MessageContext};
use crate::domain::caller::Scope;
use crate::domain::fault::Fault;
use crate::domain::frame::ToolStarted;
use crate::domain::ids::SuspensionId;
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::DecodedFrame;
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};
use crate::service::suspensions;

const STREAM: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";
const STOPPING: &str = "The server is stopping; reload the chat, which goes on.";

pub(super) async fn respond(ctx: DoorRequest, accepted: AcceptedChat) -> Result<Response, Fault> {
    let (thread, run) = (accepted.thread.clone(), accepted.run.clone());
    let stream = MessageStream::open(&ctx, accepted).await?;
    let events = stream::unfold(stream, |mut stream| async { stream.next().await.map(|bytes| (bytes, stream)) });
    let closing_events = sse::closing_events(STOPPING, |fault| {
        let error = sse::data(&Chunk::Error { error_text: fault.detail.clone() }.json());
        [&error, DONE_EVENT].concat().into()
    });
    let mut response = event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), closing_events);
    set_run(response.headers_mut(), &thread, &run);
    response.headers_mut().insert(STREAM, HeaderValue::from_static("v1"));
    Ok(response)
}

/// The stream of one message.
struct MessageStream {
    events: MessageChunks,
    feed: Feed,
    ready: VecDeque<Chunk>,
    /// The client's position. `None` once its stream has begun.
    pending: Option<PendingStart>,
    is_done: bool,
}

/// A client that has the message up to a position of the log.
struct PendingStart {
    /// The last `seq` that the client may have received.
    after: i64,
    known: Vec<KnownCall>,
    answered: HashSet<SuspensionId>,
}

impl MessageStream {
    async fn open(ctx: &DoorRequest, accepted: AcceptedChat) -> Result<Self, Fault> {
        let AcceptedChat { thread, run, from } = accepted;
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        let mut events = MessageChunks::new(MessageContext {
            thread: thread.clone(),
            run: run.clone(),
            may_approve: caller.may(Scope::Approve),
            urls: suspensions::urls(service),
        });
        let ask = |after| FeedAsk {
            after,
            types: MessageChunks::OBSERVATION_TYPES.to_vec(),
            tokens: true,
            until: Some(run.clone()),
            ends_suspended: true,
        };
        let mut pending = None;
        let feed = match from {
            MessageStart::Live(early) => {
                let ask = ask(early.after());
                feed::continued(service, caller, &thread, early, ask).await?
            }
            MessageStart::Whole => {
                let start = feed::before(service, caller, &thread, &run).await?;
                feed::open(service, caller, &thread, ask(start)).await?
            }
            MessageStart::Resumed { after, known, answered } => {
                if let After::Seq(after) = after {
                    pending = Some(PendingStart { after, known, answered });
                }
                let start = feed::before(service, caller, &thread, &run).await?;
                feed::open(service, caller, &thread, ask(start)).await?
            }
        };
        let ready = if pending.is_some() { Vec::new() } else { events.begin(&[], &HashSet::new()) };
        Ok(Self { events, feed: feed.with_joined_tokens(), ready: ready.into(), pending, is_done: false })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(sse::data(&chunk.json()));
            }
            if self.is_done {
                return None;
            }
            if self.events.is_finished() {
                self.is_done = true;
                return Some(Bytes::from_static(DONE_EVENT));
            }
            match self.feed.next().await {
                Some(frame) => self.handle_frame(&frame),
                None => {
                    self.begin();
                    self.ready.extend(self.events.interrupted("The chat was erased."));
                }
            }
        }
    }

    fn handle_frame(&mut self, frame: &Encoded) {
        let decoded = DecodedFrame::decode(frame);
        if let DecodedFrame::Observation(decoded) = &decoded
            && self.is_before_start(frame)
        {
            self.events.replay(decoded);
            return;
        }
        self.begin();
        let chunks = match decoded {
            DecodedFrame::Observation(decoded) => self.events.observation(&decoded),
            DecodedFrame::Token(token) => self.events.token(&token),
            DecodedFrame::RunStatus(run, RunStatus::Suspended) => self.events.suspended(&run),
            DecodedFrame::RunStatus(..) | DecodedFrame::CaughtUp => Vec::new(),
            DecodedFrame::Other => self.call_started(frame),
            DecodedFrame::Draining => self.events.interrupted(STOPPING),
            DecodedFrame::Gap => self.events.interrupted("The chat goes faster than it is read; reload it."),
        };
        self.ready.extend(chunks);
    }

    fn is_before_start(&self, frame: &Encoded) -> bool {
        let EncodedKind::Observation { seq, .. } = frame.kind else { return false };
        self.pending.as_ref().is_some_and(|pending| seq <= pending.after)
    }

    fn begin(&mut self) {
        if let Some(PendingStart { known, answered, .. }) = self.pending.take() {
            self.ready.extend(self.events.begin(&known, &answered));
        }
    }

    fn call_started(&mut self, frame: &Encoded) -> Vec<Chunk> {
        if !matches!(frame.kind, EncodedKind::ToolStarted { .. }) {
            return Vec::new();
        }
        let started = serde_json::from_slice::<ToolStarted>(&frame.data());
        started.map(|started| self.events.call_started(&started.run_id, &started.call_id)).unwrap_or_default()
    }
}
