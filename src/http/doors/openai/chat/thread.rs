//! Which thread a request is about. Its client sends the whole conversation each time; a thread that it names has the truth
//! about what was said there.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::ChatRequest;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::run::OnBusy;
use crate::domain::which_thread;
use crate::http::app_state::AppState;
use crate::http::doors::conversation;
use crate::http::doors::openai::conversation::{Conversation, Found};
use crate::http::doors::openai::made::Made;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::ids::new_thread_id;
use crate::service::runs::ContinueAt;
use crate::service::threads;

const HEADER: &str = "x-pes-thread";
const MEMBER: &str = "pes_thread";

/// The thread that the request names.
pub(super) fn named(app: &AppState, headers: &HeaderMap, request: &ChatRequest) -> Result<Option<ThreadId>, Refusal> {
    let others = app.config.doors.thread_headers.iter().map(String::as_str);
    let by_header = std::iter::once(HEADER).chain(others).find_map(|name| meant(headers.get(name)?.to_str().ok()?));
    let member = |metadata: &Map<String, Value>| meant(metadata.get(MEMBER)?.as_str()?).map(str::to_owned);
    let by_member = || request.metadata.as_ref().and_then(member);
    let Some(id) = by_header.map(str::to_owned).or_else(by_member) else { return Ok(None) };
    Ok(Some(new_thread_id(&id, app.config.limits.id_length, "/metadata/pes_thread")?))
}

/// Front ends put in nothing, or a placeholder, where they have no id yet.
pub(super) fn meant(id: &str) -> Option<&str> {
    let id = id.trim();
    let is_placeholder = id.contains("{{") || ["", "new", "null", "undefined"].contains(&id);
    (!is_placeholder).then_some(id)
}

/// Where a request goes on.
pub(super) struct Place {
    pub(super) thread: ThreadId,
    /// The thread begins with this request.
    pub(super) is_new: bool,
    /// The thread is a copy that was made for this request.
    pub(super) made: Option<Made>,
    /// Where in its conversation; `None`: at its end.
    pub(super) at: Option<ContinueAt>,
    pub(super) on_busy: OnBusy,
    /// Whether what is said may answer what is asked there: the client shows the conversation to its end.
    pub(super) may_answer: bool,
}

impl Place {
    fn end_of(thread: ThreadId) -> Self {
        // Whoever asks anew has not seen what still runs: it would be in what he sends.
        Self { thread, is_new: false, made: None, at: None, on_busy: OnBusy::Interrupt, may_answer: true }
    }
}

/// What says where a request goes on, in this order: the thread that it names, the calls that it has results of, what was said
/// before.
pub(super) struct Placing<'a> {
    pub(super) conversation: &'a Conversation<'a>,
    pub(super) named: Option<&'a ThreadId>,
    /// By the ids of the calls.
    pub(super) results: &'a HashMap<String, String>,
    /// It was answered before under its Idempotency-Key.
    pub(super) is_repeated: bool,
}

impl Placing<'_> {
    pub(super) async fn find(&self) -> Result<Place, Fault> {
        let begins = |thread: ThreadId| Place { is_new: true, ..Place::end_of(thread) };
        if self.is_repeated {
            return Ok(begins(self.new_id()));
        }
        if let Some(thread) = self.named
            && let Some(place) = self.on_named(thread).await?
        {
            return Ok(place);
        }
        if !self.results.is_empty() {
            let asked_by = self.asked_by().await?;
            return Ok(asked_by.map_or_else(|| begins(self.new_id()), Place::end_of));
        }
        let found = self.conversation.find().await?;
        let copied = match (found, self.named) {
            (None, _) => None,
            // What was approved elsewhere is not cancelled.
            (Some(Found::AfterQuestion(thread)), _) => {
                return Ok(Place { on_busy: OnBusy::Enqueue, ..Place::end_of(thread) });
            }
            (Some(Found::At(thread, last, _)), None) => {
                return Ok(Place { at: last.map(ContinueAt::End), ..Place::end_of(thread) });
            }
            (Some(Found::At(thread, _, seq) | Found::Copy(thread, seq)), _) => {
                self.conversation.copy(&thread, seq, self.new_id()).await?
            }
        };
        Ok(match copied {
            Some(made) => {
                let thread = made.thread.clone();
                Place { made: Some(made), ..Place::end_of(thread) }
            }
            None => begins(self.new_id()),
        })
    }

    fn new_id(&self) -> ThreadId {
        let fresh = || format!("chat-{}", threads::new_id(&self.conversation.asker.app.service)).into();
        self.named.cloned().unwrap_or_else(fresh)
    }

    /// A thread that is there has the truth about what was said; `None`: there is none of this name yet.
    async fn on_named(&self, thread: &ThreadId) -> Result<Option<Place>, Fault> {
        let Conversation { asker, said, .. } = self.conversation;
        let messages = match conversation::said(&asker.app, &asker.caller, thread).await {
            Err(fault) if fault.code == Code::NotFound => return Ok(None),
            messages => messages?,
        };
        let at = match which_thread::place(said, &messages) {
            which_thread::Place::End => None,
            which_thread::Place::After(message) => Some(ContinueAt::After(message.clone())),
            which_thread::Place::Start => Some(ContinueAt::Start),
        };
        Ok(Some(Place { may_answer: at.is_none(), at, ..Place::end_of(thread.clone()) }))
    }

    /// The thread whose run made one of the calls: a call is known to its client by the id of the suspension.
    async fn asked_by(&self) -> Result<Option<ThreadId>, Fault> {
        questions::thread_of(self.conversation.asker, self.results.keys().map(String::as_str)).await
    }
}

#[cfg(test)]
mod tests;
