//! The answer: chunks as they come.

use std::collections::{HashSet, VecDeque};

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;

use super::accept::{Accepted, Asker, Follow};
use super::calls::KnownCall;
use super::chunk::Chunk;
use super::events::{Audience, ChatEvents};
use crate::domain::caller::Scope;
use crate::domain::fault::Fault;
use crate::domain::frame::ToolStarted;
use crate::domain::ids::SuspensionId;
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::sse;
use crate::http::doors::told::Told;
use crate::http::events::sse::written;
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};
use crate::service::suspensions;

const STREAM: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
const DONE: &[u8] = b"data: [DONE]\n\n";
const STOPPING: &str = "The server is stopping; reload the chat, which goes on.";

pub(super) async fn respond(asker: Asker, accepted: Accepted) -> Result<Response, Fault> {
    let (thread, run) = (accepted.thread.clone(), accepted.run.clone());
    let telling = Telling::of(&asker, accepted).await?;
    let events = stream::unfold(telling, |mut telling| async { telling.next().await.map(|bytes| (bytes, telling)) });
    let last_words = sse::last_words(STOPPING, |fault| {
        let error = sse::data(&Chunk::Error { error_text: fault.detail.clone() }.json());
        [&error, DONE].concat().into()
    });
    let mut response = written(&asker.app, asker.preferences.pass, Box::pin(events), last_words);
    name_run(response.headers_mut(), &thread, &run);
    response.headers_mut().insert(STREAM, HeaderValue::from_static("v1"));
    Ok(response)
}

/// A message being told.
struct Telling {
    events: ChatEvents,
    feed: Feed,
    ready: VecDeque<Chunk>,
    /// Where the client comes from; `None`: its stream has begun.
    unbegun: Option<Unbegun>,
    is_done: bool,
}

/// A client that has the message up to a place of the log.
struct Unbegun {
    /// The last seq that it may have heard of.
    after: i64,
    known: Vec<KnownCall>,
    answered: HashSet<SuspensionId>,
}

impl Telling {
    async fn of(asker: &Asker, accepted: Accepted) -> Result<Self, Fault> {
        let Accepted { thread, run, follow } = accepted;
        let (service, caller) = (&asker.app.service, &asker.caller);
        let mut events = ChatEvents::new(Audience {
            thread: thread.clone(),
            run: run.clone(),
            may_approve: caller.may(Scope::Approve),
            urls: suspensions::urls(service),
        });
        let ask = |after| FeedAsk {
            after,
            types: ChatEvents::HEARD.to_vec(),
            tokens: true,
            until: Some(run.clone()),
            ends_suspended: true,
        };
        let mut unbegun = None;
        let feed = match follow {
            Follow::Live(early) => {
                let ask = ask(early.after());
                feed::continued(service, caller, &thread, early, ask).await?
            }
            Follow::Whole => {
                let start = feed::before(service, caller, &thread, &run).await?;
                feed::open(service, caller, &thread, ask(start)).await?
            }
            Follow::Resumed { after, known, answered } => {
                if let After::Seq(after) = after {
                    unbegun = Some(Unbegun { after, known, answered });
                }
                let start = feed::before(service, caller, &thread, &run).await?;
                feed::open(service, caller, &thread, ask(start)).await?
            }
        };
        let ready = if unbegun.is_some() { Vec::new() } else { events.begin(&[], &HashSet::new()) };
        Ok(Self { events, feed: feed.with_joined_tokens(), ready: ready.into(), unbegun, is_done: false })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(sse::data(&chunk.json()));
            }
            if self.is_done {
                return None;
            }
            if self.events.is_over() {
                self.is_done = true;
                return Some(Bytes::from_static(DONE));
            }
            match self.feed.next().await {
                Some(frame) => self.hear(&frame),
                None => {
                    self.begin();
                    self.ready.extend(self.events.interrupted("The chat was erased."));
                }
            }
        }
    }

    fn hear(&mut self, frame: &Encoded) {
        let told = Told::of(frame);
        if let Told::Observation(told) = &told
            && self.is_unheard(frame)
        {
            self.events.unheard(told);
            return;
        }
        self.begin();
        let chunks = match told {
            Told::Observation(told) => self.events.observation(&told),
            Told::Token(token) => self.events.token(&token),
            Told::Stands(run, RunStatus::Suspended) => self.events.suspended(&run),
            Told::Stands(..) | Told::CaughtUp => Vec::new(),
            Told::Other => self.call_begins(frame),
            Told::Draining => self.events.interrupted(STOPPING),
            Told::Gap => self.events.interrupted("The chat goes faster than it is read; reload it."),
        };
        self.ready.extend(chunks);
    }

    fn is_unheard(&self, frame: &Encoded) -> bool {
        let EncodedKind::Observation { seq, .. } = frame.kind else { return false };
        self.unbegun.as_ref().is_some_and(|unbegun| seq <= unbegun.after)
    }

    fn begin(&mut self) {
        if let Some(Unbegun { known, answered, .. }) = self.unbegun.take() {
            self.ready.extend(self.events.begin(&known, &answered));
        }
    }

    fn call_begins(&mut self, frame: &Encoded) -> Vec<Chunk> {
        if !matches!(frame.kind, EncodedKind::ToolStarted { .. }) {
            return Vec::new();
        }
        let started = serde_json::from_slice::<ToolStarted>(&frame.data());
        started.map(|started| self.events.call_begins(&started.run_id, &started.call_id)).unwrap_or_default()
    }
}
