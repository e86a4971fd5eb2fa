//! Accepts a request: it starts a run, or answers the questions of one.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::ChatRequest;
use super::task;
use super::thread::{ThreadFinder, named};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::which_thread::{self, Said};
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::open_questions;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::matched_thread::SentConversation;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::repeat::{self, EarlierRequest, RequestIdentity};
use crate::http::doors::openai::run_request::{
    METADATA_KEY, NewRun, RunReply, StartedRun, check_user, is_shown, questions_for_people,
};
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::http::doors::run_stream::RunStart;
use crate::service::feed::After;
use crate::service::once::{self, Idempotent};

/// An accepted request, and from where its answer is read.
pub(super) struct AcceptedCompletion {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// The questions that the request has not answered, oldest first.
    pub(super) open: Vec<AskedQuestion>,
    /// `None` if nothing is read, and the open questions are asked again.
    pub(super) start: Option<RunStart>,
    /// The client named the thread, so it can find the run again. The run goes on without a connected client.
    pub(super) is_thread_named: bool,
    /// The key under which the run is found if the request is sent again.
    pub(super) key: LookupKey,
    /// The request was sent again.
    pub(super) is_retry: bool,
    /// The thread, if it is erased after the answer was sent.
    pub(super) temporary: Option<TemporaryThread>,
}

/// What identifies a request that is sent again.
#[derive(Clone, Copy)]
pub(super) struct SentRequest<'a> {
    pub(super) headers: &'a HeaderMap,
    /// The fingerprint of the whole body.
    pub(super) fingerprint: &'a str,
}

pub(super) async fn accept(
    ctx: &DoorRequest,
    sent: SentRequest<'_>,
    model: &NamedModel,
    request: &ChatRequest,
    key: Option<Idempotent>,
) -> Result<AcceptedCompletion, OpenAiError> {
    let named = named(&ctx.app, sent.headers, request)?;
    let news = which_thread::new_messages(&request.said);
    if news.is_empty() {
        return Err(OpenAiError::bad_request(
            "invalid",
            "messages",
            "The last message must be the user's, or a tool's result.",
        ));
    }
    let (results, text) = (results(news), text(news));
    questions::check_count(results.len(), "messages")?;
    if results.is_empty() && text.trim().is_empty() {
        return Err(OpenAiError::bad_request("invalid", "messages", "The user's message must say something."));
    }
    check_user(&ctx.app, request.user.as_deref())?;
    let path = ("/v1/chat/completions", sent.fingerprint);
    let identity = RequestIdentity::of(ctx, sent.headers, key.as_ref(), path, named.as_ref());
    if task::is_task(sent.headers, request) {
        return task::begin(ctx, model, request, text, identity.begins).await;
    }
    let acceptance = Acceptance { ctx, model, request, named, results, text, identity };
    if let Some(first) = acceptance.identity.earlier(ctx, key.as_ref()).await? {
        return acceptance.repeat_earlier(first).await;
    }
    match acceptance.attempt(key.clone()).await {
        // Another request continued the thread first, or created it. The second attempt uses a copy as of the expected
        // position, or the thread.
        Err(error) if error.has_code(Code::PreconditionFailed) || error.has_code(Code::ThreadExists) => {
            acceptance.attempt(key).await
        }
        accepted => accepted,
    }
}

struct Acceptance<'a> {
    ctx: &'a DoorRequest,
    model: &'a NamedModel,
    request: &'a ChatRequest,
    named: Option<ThreadId>,
    results: HashMap<String, String>,
    text: String,
    identity: RequestIdentity,
}

impl Acceptance<'_> {
    async fn attempt(&self, key: Option<Idempotent>) -> Result<AcceptedCompletion, OpenAiError> {
        let (ctx, request) = (self.ctx, self.request);
        let conversation = SentConversation { ctx, said: &request.said, user: request.user.as_deref() };
        let is_repeated = match &key {
            Some(key) => once::is_repeat(&ctx.app.service, &ctx.caller, key).await?,
            None => false,
        };
        let (named, results) = (self.named.as_ref(), &self.results);
        let target = ThreadFinder { conversation: &conversation, named, results, is_repeated }.find().await?;
        let (begins, answers) = (self.identity.begins.clone(), self.identity.answers.clone());
        let open = if target.is_new { Vec::new() } else { open_questions(ctx, &target.thread).await? };
        if let Some(oldest) = open.first() {
            let run = oldest.run_id.clone();
            let (approvals, lookups) = (&HashMap::new(), &[conversation.key(), answers.clone()]);
            let asked = questions_for_people(&open, approvals);
            let may_answer =
                asked.is_empty() || (target.may_answer && is_shown(ctx, &request.said, &target.thread, &asked).await?);
            let (thread, text, results) = (&target.thread, self.text.as_str(), &self.results_for(&open));
            let reply = RunReply { ctx, thread, open: &open, results, approvals, text, may_answer, lookups };
            let start = reply.submit(key).await?.start;
            // Another one may have been asked before the position of `start`, after the first reading.
            let open = if start.is_some() { open_questions(ctx, &target.thread).await? } else { open };
            let open = open.iter().filter(|open| open.run_id == run).map(Suspension::asked).collect();
            return Ok(AcceptedCompletion { open, ..self.accepted(target.thread, run, start, answers) });
        }
        if !self.results.is_empty() {
            return Err(no_open_call(!target.is_new));
        }
        let stored =
            |sent: &Map<String, Value>| Map::from_iter([(METADATA_KEY.to_owned(), Value::Object(sent.clone()))]);
        let new = NewRun {
            history: if target.is_new { which_thread::earlier(&request.said) } else { Vec::new() },
            thread: target.thread,
            query: self.text.clone(),
            metadata: request.metadata.as_ref().map(stored),
            user: request.user.clone(),
            on_busy: target.on_busy,
            options: request.options.clone(),
            continue_at: target.at,
            lookups: vec![conversation.key(), begins.clone()],
            created: target.created,
        };
        let StartedRun { thread, run, start, .. } = new.begin(ctx, self.model, key).await?;
        Ok(self.accepted(thread, run, Some(start), begins))
    }

    /// The new results, and those of open calls among the agent's calls: some clients put each result behind its call.
    fn results_for(&self, open: &[Suspension]) -> HashMap<String, String> {
        let is_open = |call: &str| open.iter().any(|open| open.suspension_id.as_str() == call);
        let mut all = results(&self.request.said);
        all.retain(|call, _| is_open(call) || self.results.contains_key(call));
        all
    }

    fn accepted(&self, thread: ThreadId, run: RunId, start: Option<RunStart>, key: LookupKey) -> AcceptedCompletion {
        let is_thread_named = self.named.is_some();
        AcceptedCompletion {
            thread,
            run,
            open: Vec::new(),
            start,
            is_thread_named,
            key,
            is_retry: false,
            temporary: None,
        }
    }

    /// Answers a repeated request with what the first one led to, from its beginning.
    async fn repeat_earlier(&self, first: EarlierRequest) -> Result<AcceptedCompletion, OpenAiError> {
        let (ctx, identity) = (self.ctx, &self.identity);
        let accepted = match first {
            EarlierRequest::Began(found) => {
                let start = RunStart::whole(ctx, &found.thread_id, &found.run_id, None).await?;
                self.accepted(found.thread_id, found.run_id, Some(start), identity.begins.clone())
            }
            EarlierRequest::Answered(found) => {
                let at = repeat::locate_answers(ctx, &found, |id| self.results.contains_key(id.as_str())).await?;
                let start = RunStart::After(After::Seq(at.seq));
                let accepted = self.accepted(found.thread_id, found.run_id, Some(start), identity.answers.clone());
                AcceptedCompletion { open: at.open, ..accepted }
            }
        };
        Ok(AcceptedCompletion { is_retry: true, ..accepted })
    }
}

/// The results of the client's calls, by their suspension ids.
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

/// No open call has these results.
fn no_open_call(is_known: bool) -> OpenAiError {
    if is_known {
        let message = "The calls were answered already, or their run is over.";
        Fault::new(Code::AlreadyResolved, message).at("/messages", message).into()
    } else {
        let message = "No call of these ids waits for a result here. Send each result under the id that its call had.";
        OpenAiError::bad_request("invalid", "messages", message)
    }
}
