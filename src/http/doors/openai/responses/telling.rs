//! A response being told: live, or again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};

use super::accept::{self, Accepted};
use super::events::{Event, ResponseEvents};
use super::object::ResponseId;
use super::read;
use super::request::ResponseRequest;
use crate::domain::fault::Code;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::openai::asking::{Asker, Follow};
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::sse;
use crate::http::doors::told::Told;
use crate::http::events::sse::written;
use crate::http::metrics::WaitedForRun;
use crate::service::feed::{self, EarlySubscription, Feed, FeedAsk};
use crate::service::suspensions;

const STOPS: &str = "The server is stopping; the response can be had again from its successor.";

/// So many events at most are one piece of the stream.
const MOST_AT_ONCE: usize = 64;

/// The answer to a request.
pub(super) async fn respond(asker: Asker, request: &ResponseRequest, accepted: Accepted) -> Result<Response, Refusal> {
    let Accepted { thread, id, follow } = accepted;
    let run = id.run.clone();
    let live = match follow {
        Follow::Live(early) => Some(early),
        Follow::After(_) | Follow::AskedAgain => None,
    };
    let mut response = if request.is_streamed {
        let telling = Telling::of(&asker, &id, &thread, live).await?;
        streamed(asker, telling, None)
    } else if request.is_background {
        read::object(&asker, &id).await?
    } else {
        let told = Telling::of(&asker, &id, &thread, live).await?.end().await?;
        (Extension(WaitedForRun), Json(told)).into_response()
    };
    name_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// The events of a response, those behind `after`.
pub(super) async fn again(asker: Asker, id: ResponseId, after: Option<u64>) -> Result<Response, Refusal> {
    let thread = read::thread_of(&asker, &id).await?;
    let telling = Telling::of(&asker, &id, &thread, None).await?;
    let mut response = streamed(asker, telling, after);
    name_run(response.headers_mut(), &thread, &id.run);
    Ok(response)
}

fn streamed(asker: Asker, telling: Telling, after: Option<u64>) -> Response {
    let sent = Arc::new(AtomicU64::new(0));
    let told = sent.clone();
    let last_words = sse::last_words(STOPS, move |fault| {
        let error = Refusal::from(fault.clone()).body()["error"].take();
        let number = told.load(Ordering::Relaxed);
        let said = json!({
            "type": "error", "sequence_number": number, "code": error["code"], "message": error["message"], "param": null,
        });
        sse::named("error", &said)
    });
    let events = stream::unfold((telling, sent), move |(mut telling, sent)| async move {
        loop {
            let few = telling.next_few().await?;
            if let Some(last) = few.last() {
                sent.store(last.number, Ordering::Relaxed);
            }
            let new = few.iter().filter(|event| after.is_none_or(|after| event.number > after));
            let pieces: Vec<Bytes> = new.map(|event| sse::named(event.kind, &event.data)).collect();
            if !pieces.is_empty() {
                return Some((pieces.concat().into(), (telling, sent)));
            }
        }
    });
    written(&asker.app, asker.preferences.pass, Box::pin(events), last_words)
}

/// A response's events, one after the other.
pub(super) struct Telling {
    run: RunId,
    pub(super) events: ResponseEvents,
    ready: VecDeque<Event>,
    feed: Feed,
}

impl Telling {
    /// `live` hears what happens from here on.
    pub(super) async fn of(
        asker: &Asker,
        id: &ResponseId,
        thread: &ThreadId,
        live: Option<EarlySubscription>,
    ) -> Result<Self, Refusal> {
        let head = accept::head(asker, id).await?;
        let (service, caller) = (&asker.app.service, &asker.caller);
        let mut events = ResponseEvents::new(head, suspensions::urls(service));
        let ready = events.take().into();
        let ask = FeedAsk {
            after: accept::from(asker, id, thread).await?,
            types: ResponseEvents::HEARD.to_vec(),
            tokens: true,
            until: Some(id.run.clone()),
            ends_suspended: true,
        };
        let feed = match live.filter(|_| id.answers.is_none()) {
            Some(early) => feed::continued(service, caller, thread, early, ask).await?,
            None => feed::open(service, caller, thread, ask).await?,
        };
        Ok(Self { run: id.run.clone(), events, ready, feed: feed.with_joined_tokens() })
    }

    /// Those that are ready, so that they go out in one write; `None`: the response is told.
    async fn next_few(&mut self) -> Option<Vec<Event>> {
        while self.ready.is_empty() {
            if self.events.is_over() {
                return None;
            }
            self.hear().await;
        }
        Some(self.ready.drain(..self.ready.len().min(MOST_AT_ONCE)).collect())
    }

    /// The next frame, and what it means; `true`: all that had happened is told.
    pub(super) async fn hear(&mut self) -> bool {
        let frame = self.feed.next().await;
        let mut has_caught_up = false;
        match frame.as_deref().map(Told::of) {
            Some(Told::Observation(told)) => self.events.observation(&told),
            Some(Told::Token(token)) => self.events.token(&token),
            Some(Told::Stands(run, RunStatus::Suspended)) if run == self.run => self.events.suspended(),
            Some(Told::CaughtUp) => has_caught_up = true,
            Some(Told::Stands(..) | Told::Other) => {}
            Some(Told::Draining) => self.events.interrupted(Code::Draining.as_str(), STOPS),
            Some(Told::Gap) => self.events.interrupted("gap", "The client reads too slowly; get the response again."),
            None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
        }
        self.ready.extend(self.events.take());
        has_caught_up
    }

    /// The response once it is over. The client's library asks again where it was interrupted, and is told it then.
    async fn end(mut self) -> Result<Value, Refusal> {
        while self.next_few().await.is_some() {}
        match self.events.interruption() {
            Some(refusal) => Err(refusal),
            None => Ok(self.events.response()),
        }
    }
}
