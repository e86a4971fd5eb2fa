//! Finds the thread of a request. The client sends the whole conversation each time. If it names a thread, that
//! thread's own messages are authoritative.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::ChatRequest;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::OnBusy;
use crate::domain::which_thread::{self, Normal, ResumePoint};
use crate::http::app_state::AppState;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::first_query;
use crate::http::doors::newest_messages::{MAX_SEARCHED, NewestMessages};
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::matched_thread::{MatchedThread, SentConversation};
use crate::http::doors::openai::questions;
use crate::http::doors::openai::shown::find_thread;
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::http::ids::new_thread_id;
use crate::service::runs::ContinueAt;
use crate::service::threads;

const HEADER: &str = "x-pes-thread";
const MEMBER: &str = "pes_thread";

/// The thread that the request names.
pub(super) fn named(
    app: &AppState,
    headers: &HeaderMap,
    request: &ChatRequest,
) -> Result<Option<ThreadId>, OpenAiError> {
    let others = app.config.doors.thread_headers.iter().map(String::as_str);
    let by_header = std::iter::once(HEADER).chain(others).find_map(|name| {
        let id = without_placeholder(headers.get(name)?.to_str().ok()?)?;
        Some((id.to_owned(), format!("/{name}")))
    });
    let member =
        |metadata: &Map<String, Value>| without_placeholder(metadata.get(MEMBER)?.as_str()?).map(str::to_owned);
    let by_member = || Some((request.metadata.as_ref().and_then(member)?, format!("/metadata/{MEMBER}")));
    let Some((id, pointer)) = by_header.or_else(by_member) else { return Ok(None) };
    Ok(Some(new_thread_id(&id, app.config.limits.id_length, &pointer)?))
}

/// `None` if the id is empty or a placeholder, which front ends send when they have no id yet.
pub(super) fn without_placeholder(id: &str) -> Option<&str> {
    let id = id.trim();
    let is_placeholder = id.contains("{{") || ["", "new", "null", "undefined"].contains(&id);
    (!is_placeholder).then_some(id)
}

/// The thread and the position that a request continues.
pub(super) struct TargetThread {
    pub(super) thread: ThreadId,
    /// The thread begins with this request.
    pub(super) is_new: bool,
    /// The thread is a copy that was made for this request.
    pub(super) created: Option<TemporaryThread>,
    /// The position in its conversation. `None` means its end.
    pub(super) at: Option<ContinueAt>,
    pub(super) on_busy: OnBusy,
    /// Whether the text may answer an open question: only if the client shows the conversation up to its end.
    pub(super) may_answer: bool,
}

impl TargetThread {
    fn end_of(thread: ThreadId) -> Self {
        // A client that asks anew has not seen the running answer, which it would have sent back. So that run is
        // interrupted.
        Self { thread, is_new: false, created: None, at: None, on_busy: OnBusy::Interrupt, may_answer: true }
    }
}

/// Finds the thread of a request by, in this order: the thread that it names, the calls whose results it has, the
/// earlier messages.
pub(super) struct ThreadFinder<'a> {
    pub(super) conversation: &'a SentConversation<'a>,
    pub(super) named: Option<&'a ThreadId>,
    /// By the suspension ids of the calls.
    pub(super) results: &'a HashMap<String, String>,
    /// The request was accepted before under its Idempotency-Key.
    pub(super) is_repeated: bool,
}

impl ThreadFinder<'_> {
    pub(super) async fn find(&self) -> Result<TargetThread, Fault> {
        let begins = |thread: ThreadId| TargetThread { is_new: true, ..TargetThread::end_of(thread) };
        if self.is_repeated {
            return Ok(begins(self.new_id()));
        }
        if let Some(thread) = self.named
            && let Some(target) = self.in_named_thread(thread).await?
        {
            return Ok(target);
        }
        if !self.results.is_empty() {
            let thread_of_results = self.thread_of_results().await?;
            return Ok(thread_of_results.map_or_else(|| begins(self.new_id()), TargetThread::end_of));
        }
        let found = self.conversation.find().await?;
        let copied = match (found, self.named) {
            (None, _) => None,
            // A run whose question was answered elsewhere is not cancelled.
            (Some(MatchedThread::AfterQuestion(thread)), _) => {
                return Ok(TargetThread { on_busy: OnBusy::Enqueue, ..TargetThread::end_of(thread) });
            }
            (Some(MatchedThread::Continue(thread, last, _)), None) => {
                return Ok(TargetThread { at: last.map(ContinueAt::End), ..TargetThread::end_of(thread) });
            }
            (Some(MatchedThread::Continue(thread, _, seq) | MatchedThread::Copy(thread, seq)), _) => {
                self.conversation.copy(&thread, seq, self.new_id()).await?
            }
        };
        Ok(match copied {
            Some(created) => {
                let thread = created.thread.clone();
                TargetThread { created: Some(created), ..TargetThread::end_of(thread) }
            }
            None => begins(self.new_id()),
        })
    }

    fn new_id(&self) -> ThreadId {
        let fresh = || format!("chat-{}", threads::new_id(&self.conversation.ctx.app.service)).into();
        self.named.cloned().unwrap_or_else(fresh)
    }

    /// The position in the named thread, by the thread's own messages. `None` if there is no such thread yet.
    async fn in_named_thread(&self, thread: &ThreadId) -> Result<Option<TargetThread>, Fault> {
        let SentConversation { ctx, said, .. } = self.conversation;
        let mut newest = NewestMessages::of(ctx, thread).await?;
        if newest.read().is_empty() && find_thread(ctx, thread).await?.is_none() {
            return Ok(None);
        }
        let at = match which_thread::resume_point(said) {
            ResumePoint::End => None,
            ResumePoint::After(text) => {
                let is_it = |one: &ConversationMessage| one.role == MessageRole::Ai && Normal::of(&one.content) == text;
                let answer = newest.find(MAX_SEARCHED, is_it).await?;
                // Later messages had no answer that the client has seen.
                let answer = answer.filter(|at| *at > 0).map(|at| newest.read()[at].message_id.clone());
                answer.map(ContinueAt::After)
            }
            ResumePoint::StartOf(query) => is_first_query(ctx, thread, query).await?.then_some(ContinueAt::Start),
        };
        Ok(Some(TargetThread { may_answer: at.is_none(), at, ..TargetThread::end_of(thread.clone()) }))
    }

    /// The thread whose run made one of the calls. The client knows a call by its suspension id.
    async fn thread_of_results(&self) -> Result<Option<ThreadId>, Fault> {
        questions::thread_of(self.conversation.ctx, self.results.keys().map(String::as_str)).await
    }
}

/// Whether the thread's first message of a user has this text.
async fn is_first_query(ctx: &DoorRequest, thread: &ThreadId, query: &str) -> Result<bool, Fault> {
    let first = first_query(ctx, thread).await?;
    Ok(first.is_some_and(|(first, _)| first.content.trim() == query))
}

#[cfg(test)]
mod tests;
