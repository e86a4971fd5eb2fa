//! The response: a stream of chunks.

use std::collections::HashSet;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::accept::{AcceptedChat, MessageStart};
use super::calls::KnownCall;
use super::chunk::Chunk;
use super::events::{MessageChunks, MessageContext};
use crate::domain::caller::Scope;
use crate::domain::fault::Fault;
use crate::domain::ids::SuspensionId;
use crate::domain::observation::ObservationType;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::RunFrame;
use crate::http::doors::run_stream::{Projection, RunStart, RunStream};
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::service::feed::After;
use crate::service::suspensions;

const STREAM: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";
const STOPPING: &str = "The server is stopping; reload the chat, which goes on.";

pub(super) async fn respond(ctx: DoorRequest, accepted: AcceptedChat) -> Result<Response, Fault> {
    let (thread, run) = (accepted.thread.clone(), accepted.run.clone());
    let chunks = open(&ctx, accepted).await?.into_events().map(|chunk| sse::data(&chunk.json()));
    let events = chunks.chain(stream::iter([Bytes::from_static(DONE_EVENT)]));
    let closing_events = sse::closing_events(STOPPING, |fault| {
        let error = sse::data(&Chunk::Error { error_text: fault.detail.clone() }.json());
        [&error, DONE_EVENT].concat().into()
    });
    let mut response = event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), closing_events);
    set_run(response.headers_mut(), &thread, &run);
    response.headers_mut().insert(STREAM, HeaderValue::from_static("v1"));
    Ok(response)
}

async fn open(ctx: &DoorRequest, accepted: AcceptedChat) -> Result<RunStream<MessageProjection>, Fault> {
    let AcceptedChat { thread, run, from } = accepted;
    let mut chunks = MessageChunks::new(MessageContext {
        thread: thread.clone(),
        run: run.clone(),
        may_approve: ctx.caller.may(Scope::Approve),
        urls: suspensions::urls(&ctx.app.service),
    });
    let (early, pending) = match from {
        MessageStart::Live(early) => (Some(early), None),
        MessageStart::Resumed { after: After::Seq(after), known, answered } => {
            (None, Some(PendingStart { after, known, answered }))
        }
        MessageStart::Resumed { after: After::Latest, .. } | MessageStart::Whole => (None, None),
    };
    let start = RunStart::whole(ctx, &thread, &run, early).await?;
    let first = if pending.is_some() { Vec::new() } else { chunks.begin(&[], &HashSet::new()) };
    RunStream::open(ctx, &thread, &run, start, MessageProjection { chunks, pending }, first).await
}

/// Projects a run to the chunks that follow the client's position in the message.
struct MessageProjection {
    chunks: MessageChunks,
    /// The client's position. `None` once its stream has begun.
    pending: Option<PendingStart>,
}

/// A client that has the message up to a position of the log.
struct PendingStart {
    /// The last `seq` that the client may have received.
    after: i64,
    known: Vec<KnownCall>,
    answered: HashSet<SuspensionId>,
}

impl Projection for MessageProjection {
    type Event = Chunk;

    const OBSERVATION_TYPES: &'static [ObservationType] = &MessageChunks::OBSERVATION_TYPES;

    async fn project(&mut self, frame: RunFrame) -> Vec<Chunk> {
        if let (RunFrame::Observation(observation), Some(pending)) = (&frame, &self.pending)
            && observation.seq <= pending.after
        {
            self.chunks.replay(observation);
            return Vec::new();
        }
        let mut chunks = match self.pending.take() {
            Some(PendingStart { known, answered, .. }) => self.chunks.begin(&known, &answered),
            None => Vec::new(),
        };
        chunks.extend(match frame {
            RunFrame::Observation(observation) => self.chunks.observation(&observation),
            RunFrame::Token(token) => self.chunks.token(&token),
            RunFrame::CallStarted(started) => self.chunks.call_started(&started.run_id, &started.call_id),
            RunFrame::Suspended => self.chunks.suspended(),
            RunFrame::CaughtUp => Vec::new(),
            RunFrame::Draining => self.chunks.interrupted(STOPPING),
            RunFrame::Gap => self.chunks.interrupted("The chat goes faster than it is read; reload it."),
            RunFrame::LogUnreadable => self.chunks.interrupted("The chat cannot be read now; reload it."),
            RunFrame::Erased => self.chunks.interrupted("The chat was erased."),
        });
        chunks
    }

    fn is_finished(&self) -> bool {
        self.chunks.is_finished()
    }
}
