//! The answer: events as they come.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accept::{Asker, Follow};
use super::events::{AguiEvents, Origin};
use super::request::ClientRun;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::sse;
use crate::http::doors::told::Told;
use crate::http::events::sse::{LastWords, written};
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};

const STOPPING: &str = "The server is stopping; connect again, the run goes on.";

pub(super) fn started(client: &ClientRun) -> Value {
    let mut started = json!({ "type": "RUN_STARTED", "threadId": client.thread, "runId": client.id });
    if client.is_one {
        started["protocolVersion"] = json!("1.0");
    }
    started
}

/// These events, and nothing more.
pub(super) fn few(asker: Asker, events: Vec<Value>) -> Response {
    let events = stream::iter(events.into_iter().map(|event| sse::data(&event)));
    written(&asker.app, asker.preferences.pass, Box::pin(events), LastWords::default())
}

/// How a stream ends that cannot be told to its end.
pub(super) fn error(fault: &Fault) -> Value {
    let retryable = json!({ "pes": { "retryable": fault.code.retryable() } });
    json!({ "type": "RUN_ERROR", "message": fault.detail, "code": fault.code, "metadata": retryable })
}

/// Why nothing was done.
pub(super) fn refused(asker: Asker, client: &ClientRun, fault: &Fault) -> Response {
    few(asker, vec![started(client), error(fault)])
}

/// A run, behind these events.
pub(super) async fn told(
    asker: Asker,
    client: ClientRun,
    run: RunId,
    follow: Follow,
    before: Vec<Value>,
) -> Result<Response, Fault> {
    let thread = client.thread.clone();
    let telling = Telling::of(&asker, client, &run, follow, before).await?;
    let events = stream::unfold(telling, |mut telling| async { telling.next().await.map(|bytes| (bytes, telling)) });
    let last_words = sse::last_words(STOPPING, |fault| sse::data(&error(fault)));
    let mut response = written(&asker.app, asker.preferences.pass, Box::pin(events), last_words);
    name_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// A run being told.
struct Telling {
    events: AguiEvents,
    feed: Feed,
    ready: VecDeque<Value>,
    /// The last seq that the client may have heard of; `None`: its stream has begun.
    unbegun: Option<i64>,
}

/// Of an observation, what events say of where they come from.
#[derive(Deserialize)]
struct Head {
    timestamp: Millis,
}

impl Telling {
    async fn of(
        asker: &Asker,
        client: ClientRun,
        run: &RunId,
        follow: Follow,
        before: Vec<Value>,
    ) -> Result<Self, Fault> {
        let (service, caller, thread) = (&asker.app.service, &asker.caller, client.thread.clone());
        let mut ready = vec![started(&client)];
        ready.extend(before);
        let mut events = AguiEvents::new(client, run.clone());
        let ask =
            |after| FeedAsk { after, types: Vec::new(), tokens: true, until: Some(run.clone()), ends_suspended: true };
        let mut unbegun = None;
        let feed = match follow {
            Follow::Live(early) => {
                let ask = ask(early.after());
                feed::continued(service, caller, &thread, early, ask).await?
            }
            Follow::Whole => feed::open(service, caller, &thread, ask(After::default())).await?,
            Follow::Behind(after) => {
                if let After::Seq(seq) = after {
                    unbegun = Some(seq);
                }
                feed::open(service, caller, &thread, ask(After::default())).await?
            }
        };
        if unbegun.is_none() {
            ready.extend(events.begin());
        }
        Ok(Self { events, feed: feed.with_joined_tokens(), ready: ready.into(), unbegun })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(sse::data(&event));
            }
            if self.events.is_over() {
                return None;
            }
            match self.feed.next().await {
                Some(frame) => self.hear(&frame),
                None => self.ready.extend(self.events.interrupted("not_found", "The thread was erased.")),
            }
        }
    }

    fn hear(&mut self, frame: &Encoded) {
        let told = Told::of(frame);
        if let (Told::Observation(told), EncodedKind::Observation { seq, .. }) = (&told, &frame.kind)
            && self.unbegun.is_some_and(|after| *seq <= after)
        {
            self.events.unheard(told);
            return;
        }
        if self.unbegun.take().is_some() {
            self.ready.extend(self.events.begin());
        }
        let events = match told {
            Told::Observation(told) => self.events.observation(&origin(frame), &told),
            Told::Token(token) => self.events.token(&token),
            Told::Stands(run, RunStatus::Suspended) => self.events.suspended(&run),
            Told::Stands(..) | Told::CaughtUp | Told::Other => Vec::new(),
            Told::Draining => self.events.interrupted("draining", STOPPING),
            Told::Gap => self.events.interrupted("gap", "The client reads too slowly; connect again."),
        };
        self.ready.extend(events);
    }
}

fn origin(frame: &Encoded) -> Origin {
    let EncodedKind::Observation { seq, kind, .. } = &frame.kind else { return Origin::default() };
    let at = match frame.told() {
        Some(observation) => observation.timestamp,
        None => serde_json::from_slice::<Head>(&frame.data()).map(|head| head.timestamp).unwrap_or_default(),
    };
    Origin { at, seq: *seq, kind: kind.as_str() }
}
