//! What a chat front end asks a model for itself, and not for its user: a title, tags, what one might ask next. It is no part
//! of the conversation, so it is asked of a model alone, without a plan and without tools, on a thread that is erased as soon
//! as its answer is told.

use axum::http::HeaderMap;

use super::accept::Accepted;
use super::request::ChatRequest;
use super::thread::meant;
use crate::domain::ids::ThreadId;
use crate::domain::lookup::LookupKey;
use crate::domain::run::OnBusy;
use crate::domain::settings::ThreadConfig;
use crate::domain::which_thread::{self, Said};
use crate::http::doors::openai::asking::{Asker, Begun, NewRun};
use crate::http::doors::openai::made::Made;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::refusal::Refusal;
use crate::service::threads::{self, NewThreadAsk};

/// Names the task, where the front end can be told to.
const HEADER: &str = "x-pes-task";

/// The core that asks a model and nothing else.
const CORE: &str = "react";

/// How Open WebUI begins one, and what it shows in it of the conversation. What it asks about documents begins alike and shows
/// none: that is a user's question.
const BEGINS: &str = "### Task:";
const SHOWS: &str = "<chat_history>";

/// Whether the request is one.
pub(super) fn is_one(headers: &HeaderMap, request: &ChatRequest) -> bool {
    let is_named = headers.get(HEADER).and_then(|name| meant(name.to_str().ok()?)).is_some();
    let is_known = match &request.said[..] {
        [Said::User(text)] => text.starts_with(BEGINS) && text.contains(SHOWS),
        _ => false,
    };
    is_named || (is_known && !request.is_streamed)
}

/// `text` is what it says.
pub(super) async fn begin(
    asker: &Asker,
    model: &NamedModel,
    request: &ChatRequest,
    text: String,
    key: LookupKey,
) -> Result<Accepted, Refusal> {
    let mut options = request.options.clone();
    options.client_tools.clear();
    let thread: ThreadId = format!("task-{}", threads::new_id(&asker.app.service)).into();
    let config =
        ThreadConfig { agent_core: Some(CORE.to_owned()), enabled_tools: Some(Vec::new()), ..ThreadConfig::default() };
    let ask = NewThreadAsk { config, ..NewThreadAsk::default() };
    let new = NewRun {
        made: Made::create_to_throw_away(asker, thread.clone(), ask).await?,
        thread,
        query: text,
        metadata: None,
        user: request.user.clone(),
        on_busy: OnBusy::Reject,
        options,
        history: which_thread::earlier(&request.said),
        continue_at: None,
        lookups: vec![key.clone()],
    };
    let Begun { thread, run, follow, throw_away } = new.begin(asker, model, None).await?;
    let (is_found_again, is_again) = (false, false);
    Ok(Accepted { thread, run, open: Vec::new(), follow, is_found_again, key, is_again, throw_away })
}
