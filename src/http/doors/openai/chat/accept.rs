//! A request becomes a run, or the answer to what a run asks.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::ChatRequest;
use super::task;
use super::thread::{Placing, named};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::which_thread::{self, Said};
use crate::http::doors::openai::asking::{
    Asker, Begun, Follow, NewRun, Reply, STORED, check_user, for_people, is_shown, open_on,
};
use crate::http::doors::openai::conversation::Conversation;
use crate::http::doors::openai::made::Made;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::openai::repeat::{self, First, Whole};
use crate::service::feed::{self, After};
use crate::service::once::{self, Idempotent};

/// Where the answer comes from.
pub(super) struct Accepted {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// The questions that were open before.
    pub(super) open: Vec<AskedQuestion>,
    pub(super) follow: Follow,
    /// The run goes on without listeners: whoever named its thread finds it again.
    pub(super) is_found_again: bool,
    /// What the run is found under if the request is sent again.
    pub(super) key: LookupKey,
    /// It was sent again.
    pub(super) is_again: bool,
    /// The thread, if it is erased when the answer is told.
    pub(super) throw_away: Option<Made>,
}

/// What a request is known by when it is sent again.
#[derive(Clone, Copy)]
pub(super) struct SentAs<'a> {
    pub(super) headers: &'a HeaderMap,
    /// Of the whole body.
    pub(super) fingerprint: &'a str,
}

pub(super) async fn accept(
    asker: &Asker,
    sent: SentAs<'_>,
    model: &NamedModel,
    request: &ChatRequest,
    key: Option<Idempotent>,
) -> Result<Accepted, Refusal> {
    let named = named(&asker.app, sent.headers, request)?;
    let news = which_thread::news(&request.said);
    if news.is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The last message must be the user's, or a tool's result."));
    }
    let (results, text) = (results(news), text(news));
    questions::check_count(results.len(), "messages")?;
    if results.is_empty() && text.trim().is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The user's message must say something."));
    }
    check_user(&asker.app, request.user.as_deref())?;
    let path = ("/v1/chat/completions", sent.fingerprint);
    let whole = Whole::of(asker, sent.headers, key.as_ref(), path, named.as_ref());
    if task::is_one(sent.headers, request) {
        return task::begin(asker, model, request, text, whole.begins).await;
    }
    let accepting = Accepting { asker, model, request, named, results, text, whole };
    if let Some(first) = accepting.whole.first(asker, key.as_ref()).await? {
        return accepting.again(first).await;
    }
    match accepting.attempt(key.clone()).await {
        // Somebody else went on there first: what was said until then is copied.
        Err(refusal) if refusal.is(Code::PreconditionFailed) => accepting.attempt(key).await,
        accepted => accepted,
    }
}

struct Accepting<'a> {
    asker: &'a Asker,
    model: &'a NamedModel,
    request: &'a ChatRequest,
    named: Option<ThreadId>,
    results: HashMap<String, String>,
    text: String,
    whole: Whole,
}

impl Accepting<'_> {
    async fn attempt(&self, key: Option<Idempotent>) -> Result<Accepted, Refusal> {
        let (asker, request) = (self.asker, self.request);
        let conversation = Conversation { asker, said: &request.said, user: request.user.as_deref() };
        let is_repeated = match &key {
            Some(key) => once::is_repeat(&asker.app.service, &asker.caller, key).await?,
            None => false,
        };
        let (named, results) = (self.named.as_ref(), &self.results);
        let place = Placing { conversation: &conversation, named, results, is_repeated }.find().await?;
        let (begins, answers) = (self.whole.begins.clone(), self.whole.answers.clone());
        let open = if place.is_new { Vec::new() } else { open_on(asker, &place.thread).await? };
        if let Some(oldest) = open.first() {
            let run = oldest.run_id.clone();
            let (approvals, lookups) = (&HashMap::new(), &[conversation.key(), answers.clone()]);
            let asked = for_people(&open, approvals);
            let may_answer =
                asked.is_empty() || (place.may_answer && is_shown(asker, &request.said, &place.thread, &asked).await?);
            let text = if may_answer { &self.text } else { "" };
            let reply = Reply { asker, thread: &place.thread, open: &open, results, approvals, text, lookups };
            let (follow, ..) = reply.given(key).await?;
            let open = open.iter().map(Suspension::asked).collect();
            return Ok(Accepted { open, ..self.accepted(place.thread, run, follow, answers) });
        }
        if !self.results.is_empty() {
            return Err(unasked(!place.is_new));
        }
        let stored = |sent: &Map<String, Value>| Map::from_iter([(STORED.to_owned(), Value::Object(sent.clone()))]);
        let new = NewRun {
            history: if place.is_new { which_thread::earlier(&request.said) } else { Vec::new() },
            thread: place.thread,
            query: self.text.clone(),
            metadata: request.metadata.as_ref().map(stored),
            user: request.user.clone(),
            on_busy: place.on_busy,
            options: request.options.clone(),
            continue_at: place.at,
            lookups: vec![conversation.key(), begins.clone()],
            made: place.made,
        };
        let Begun { thread, run, follow, .. } = new.begin(asker, self.model, key).await?;
        Ok(self.accepted(thread, run, follow, begins))
    }

    fn accepted(&self, thread: ThreadId, run: RunId, follow: Follow, key: LookupKey) -> Accepted {
        let is_found_again = self.named.is_some();
        Accepted { thread, run, open: Vec::new(), follow, is_found_again, key, is_again: false, throw_away: None }
    }

    /// What came of the first of the same requests is told from its beginning.
    async fn again(&self, first: First) -> Result<Accepted, Refusal> {
        let (asker, whole) = (self.asker, &self.whole);
        let accepted = match first {
            First::Began(found) => {
                let (service, caller) = (&asker.app.service, &asker.caller);
                let start = feed::before(service, caller, &found.thread_id, &found.run_id).await?;
                let follow = Follow::After(start);
                self.accepted(found.thread_id, found.run_id, follow, whole.begins.clone())
            }
            First::Answered(found) => {
                let at = repeat::answers_at(asker, &found, |id| self.results.contains_key(id.as_str())).await?;
                let follow = Follow::After(After::Seq(at.seq));
                let accepted = self.accepted(found.thread_id, found.run_id, follow, whole.answers.clone());
                Accepted { open: at.open, ..accepted }
            }
        };
        Ok(Accepted { is_again: true, ..accepted })
    }
}

/// Of the client's calls, by their ids.
fn results(news: &[Said]) -> HashMap<String, String> {
    let results = news.iter().filter_map(|said| match said {
        Said::ToolResult { call, text } => Some((call.clone(), text.clone())),
        Said::User(_) | Said::Assistant { .. } => None,
    });
    results.collect()
}

fn text(news: &[Said]) -> String {
    let texts = news.iter().filter_map(|said| match said {
        Said::User(text) => Some(text.as_str()),
        Said::ToolResult { .. } | Said::Assistant { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Nothing waits for these results.
fn unasked(is_known: bool) -> Refusal {
    if is_known {
        let message = "The calls were answered already, or their run is over.";
        Fault::new(Code::AlreadyResolved, message).at("/messages", message).into()
    } else {
        Refusal::wrong("invalid", "messages", "No call of these ids waits for a result here.")
    }
}
