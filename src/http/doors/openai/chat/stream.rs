//! The answer: chunks as they come, or all of them when it is over.

use std::collections::VecDeque;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;

use super::accept::Accepted;
use super::events::{ChatEvents, Piece};
use super::request::ChatRequest;
use super::wire::Completion;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::openai::asking::{Asker, Follow};
use crate::http::doors::openai::made::Made;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::sse;
use crate::http::doors::told::Told;
use crate::http::events::sse::written;
use crate::http::listeners::Listening;
use crate::http::metrics::WaitedForRun;
use crate::service::feed::{self, Feed, FeedAsk};
use crate::service::suspensions;

pub(super) async fn respond(asker: Asker, request: ChatRequest, accepted: Accepted) -> Result<Response, Refusal> {
    let (thread, run) = (accepted.thread.clone(), accepted.run.clone());
    let completion = Completion::new(&run, asker.app.service.now(), request.model.clone());
    let telling = Telling::of(&asker, accepted, request.options.answer_schema.is_some()).await?;
    let mut response = if request.is_streamed {
        streamed(asker, &request, telling, completion)
    } else {
        (Extension(WaitedForRun), Json(whole(telling, &completion).await?)).into_response()
    };
    name_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

async fn whole(mut telling: Telling, completion: &Completion) -> Result<serde_json::Value, Refusal> {
    let mut pieces = Vec::new();
    while let Some(piece) = telling.next().await {
        pieces.push(piece);
    }
    completion.whole(&pieces, telling.events.usage())
}

fn streamed(asker: Asker, request: &ChatRequest, telling: Telling, completion: Completion) -> Response {
    let say = |fault: &Fault| sse::data(&Refusal::from(fault.clone()).body());
    let last_words = sse::last_words("The server is stopping; send this again.", say);
    let writing = Writing {
        ready: [sse::data(&completion.accepted())].into(),
        telling: Some(telling),
        completion,
        calls: 0,
        with_usage: request.with_usage,
    };
    let events = stream::unfold(writing, |mut writing| async { writing.next().await.map(|bytes| (bytes, writing)) });
    written(&asker.app, asker.preferences.pass, Box::pin(events), last_words)
}

/// The chunks as they are written.
struct Writing {
    ready: VecDeque<Bytes>,
    /// `None`: all was told.
    telling: Option<Telling>,
    completion: Completion,
    calls: usize,
    with_usage: bool,
}

impl Writing {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(bytes) = self.ready.pop_front() {
            return Some(bytes);
        }
        let telling = self.telling.as_mut()?;
        if let Some(piece) = telling.next().await {
            return Some(sse::data(&self.completion.piece(&piece, &mut self.calls)));
        }
        if self.with_usage {
            self.ready.push_back(sse::data(&self.completion.used(telling.events.usage())));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.telling = None;
        self.ready.pop_front()
    }
}

/// An answer being told, piece by piece.
struct Telling {
    run: RunId,
    events: ChatEvents,
    ready: VecDeque<Piece>,
    /// `None`: nothing is heard any more.
    feed: Option<Feed>,
    listening: Listening,
    /// What is erased when the answer is told, and where its client hung up.
    throw_away: Option<Made>,
}

impl Telling {
    async fn of(asker: &Asker, accepted: Accepted, in_one_piece: bool) -> Result<Self, Refusal> {
        let Accepted { thread, run, open, follow, is_found_again, key, is_again, throw_away } = accepted;
        let (app, caller) = (&asker.app, &asker.caller);
        let grace = app.config.doors.chat_grace().filter(|_| !is_found_again);
        let mut listening = Listening::to(app, (caller, &asker.preferences.pass), &run, grace, key);
        if is_again {
            listening.announce().await?;
        }
        let events = ChatEvents::new(run.clone(), open, suspensions::urls(&app.service));
        let mut events = events.in_one_piece(in_one_piece);
        let ask = |after| FeedAsk {
            after,
            types: ChatEvents::HEARD.to_vec(),
            tokens: true,
            until: Some(run.clone()),
            ends_suspended: true,
        };
        let service = &app.service;
        let (feed, ready): (_, VecDeque<Piece>) = match follow {
            Follow::Live(early) => {
                let ask = ask(early.after());
                (Some(feed::continued(service, caller, &thread, early, ask).await?), VecDeque::new())
            }
            Follow::After(after) => (Some(feed::open(service, caller, &thread, ask(after)).await?), VecDeque::new()),
            Follow::AskedAgain => (None, events.suspended().into()),
        };
        let feed = feed.map(Feed::with_joined_tokens);
        Ok(Self { run, events, ready, feed, listening, throw_away })
    }

    /// `None`: the answer is told.
    async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.events.is_over() {
                self.listening.told_all();
                if let Some(thread) = self.throw_away.take() {
                    thread.erase().await;
                }
                return None;
            }
            let heard = match &mut self.feed {
                Some(feed) => feed.next().await,
                None => None,
            };
            let pieces = match heard.as_deref().map(Told::of) {
                Some(Told::Observation(told)) => self.events.observation(&told),
                Some(Told::Token(token)) => self.events.token(&token),
                Some(Told::Stands(run, RunStatus::Suspended)) if run == self.run => self.events.suspended(),
                Some(Told::Stands(..) | Told::CaughtUp | Told::Other) => Vec::new(),
                Some(Told::Draining) => {
                    self.events.interrupted(Code::Draining.as_str(), "The server is stopping; send this again.")
                }
                Some(Told::Gap) => self.events.interrupted("gap", "The client reads too slowly; ask for the thread."),
                None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
            };
            self.ready.extend(pieces);
        }
    }
}
