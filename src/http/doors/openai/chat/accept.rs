//! A request becomes a run, or the answer to what a run asks.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::{ChatRequest, Said};
use super::thread::{named, news};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{HistoryMessage, HistoryRole};
use crate::domain::run::OnBusy;
use crate::http::doors::openai::asking::{Asker, Begun, Follow, NewRun, Reply, open_on};
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::refusal::Refusal;
use crate::service::once::Idempotent;
use crate::service::{suspensions, threads};

/// Where the answer comes from.
pub(super) struct Accepted {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// The questions that were open before.
    pub(super) open: Vec<AskedQuestion>,
    pub(super) follow: Follow,
    /// The run goes on without listeners: whoever named its thread finds it again.
    pub(super) is_found_again: bool,
}

pub(super) async fn accept(
    asker: &Asker,
    headers: &HeaderMap,
    model: &NamedModel,
    request: &ChatRequest,
    key: Option<Idempotent>,
) -> Result<Accepted, Refusal> {
    let named = named(&asker.app, headers, request)?;
    let news = news(&request.said);
    if news.is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The last message must be the user's, or a tool's result."));
    }
    let results = results(news);
    let is_found_again = named.is_some();
    let known = match named {
        Some(thread) => Some(thread),
        None => asked_by(asker, &results).await?,
    };
    let text = text(news);
    if let Some(thread) = &known {
        let open = open_on(asker, thread).await?;
        if let Some(oldest) = open.first() {
            let run = oldest.run_id.clone();
            let approvals = HashMap::new();
            let reply = Reply { asker, thread, open: &open, results: &results, approvals: &approvals, text: &text };
            let (follow, ..) = reply.given(key).await?;
            let open = open.iter().map(Suspension::asked).collect();
            return Ok(Accepted { thread: thread.clone(), run, open, follow, is_found_again });
        }
    }
    if !results.is_empty() {
        return Err(unasked(known.is_some()));
    }
    if text.trim().is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The user's message must say something."));
    }
    let history = if known.is_some() { Vec::new() } else { history(&request.said[..request.said.len() - news.len()]) };
    let new = NewRun {
        thread: known.unwrap_or_else(|| format!("chat-{}", threads::new_id(&asker.app.service)).into()),
        query: text,
        metadata: request.metadata.clone().map(|sent| Map::from_iter([("openai".to_owned(), Value::Object(sent))])),
        user: request.user.clone(),
        // Whoever asks anew has not seen what still runs: it would be in what he sends.
        on_busy: OnBusy::Interrupt,
        options: request.options.clone(),
        history,
    };
    let Begun { thread, run, follow } = new.begin(asker, model, key).await?;
    Ok(Accepted { thread, run, open: Vec::new(), follow, is_found_again })
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

/// What was said before, for a thread that does not know it.
fn history(before: &[Said]) -> Vec<HistoryMessage> {
    let said = before.iter().filter_map(|said| match said {
        Said::User(text) => Some((HistoryRole::User, text)),
        Said::Assistant { text, .. } => Some((HistoryRole::Assistant, text)),
        Said::ToolResult { .. } => None,
    });
    let said = said.filter(|(_, text)| !text.trim().is_empty());
    said.map(|(role, content)| HistoryMessage { role, content: content.clone() }).collect()
}

/// The thread whose run made one of these calls: a call is known to its client by the id of the suspension.
async fn asked_by(asker: &Asker, results: &HashMap<String, String>) -> Result<Option<ThreadId>, Refusal> {
    for call in results.keys() {
        match suspensions::get(&asker.app.service, &asker.caller, &call.as_str().into()).await {
            Err(fault) if fault.code == Code::NotFound => {}
            found => return Ok(Some(found?.thread_id)),
        }
    }
    Ok(None)
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
