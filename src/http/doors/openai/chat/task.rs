//! Requests that a chat front end makes for itself and not for its user: a title, tags, suggested questions. They are
//! no part of the conversation. So they go to a model alone, without a plan and without tools, on a thread that is
//! erased once the answer was sent. So nothing is left that a repeated request could get: it is another run, also under
//! an `Idempotency-Key`. Such a run calls a model and has no other effect.

use axum::http::HeaderMap;

use super::accept::AcceptedCompletion;
use super::request::ChatRequest;
use super::thread::without_placeholder;
use crate::domain::ids::ThreadId;
use crate::domain::lookup::LookupKey;
use crate::domain::prompt::SystemPrompt;
use crate::domain::run::OnBusy;
use crate::domain::settings::ThreadConfig;
use crate::domain::which_thread::{self, Said};
use crate::http::doors::DoorRequest;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::run_request::{NewRun, StartedRun};
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::service::threads::{self, NewThreadAsk};

/// The header that marks such a request, for front ends that can be configured to send it.
const HEADER: &str = "x-pes-task";

/// The core that only calls a model.
const CORE: &str = "react";

/// How such a request of Open WebUI begins, and the marker of the conversation in it. Its questions about documents
/// begin the same way but without that marker: those are a user's questions.
const OPEN_WEBUI_PREFIX: &str = "### Task:";
const CONVERSATION_MARKER: &str = "<chat_history>";

/// How the system's message and the first one of the user begin where opencode asks for a title.
const OPENCODE_SYSTEM_PREFIX: &str = "You are a title generator.";
const OPENCODE_PREFIX: &str = "Generate a title for this conversation:";

/// Whether the request is such a task.
pub(super) fn is_task(headers: &HeaderMap, request: &ChatRequest) -> bool {
    let is_named = headers.get(HEADER).and_then(|name| without_placeholder(name.to_str().ok()?)).is_some();
    is_named || is_of_open_webui(request) || is_of_opencode(request)
}

fn is_of_open_webui(request: &ChatRequest) -> bool {
    let is_known = match &request.said[..] {
        [Said::User(text)] => text.starts_with(OPEN_WEBUI_PREFIX) && text.contains(CONVERSATION_MARKER),
        _ => false,
    };
    is_known && !request.is_streamed
}

fn is_of_opencode(request: &ChatRequest) -> bool {
    let is_known = match (&request.options.system_prompt, &request.said[..]) {
        (Some(SystemPrompt::Text(system)), [Said::User(first), ..]) => {
            system.starts_with(OPENCODE_SYSTEM_PREFIX) && first.starts_with(OPENCODE_PREFIX)
        }
        (_, _) => false,
    };
    is_known && request.options.client_tools.is_empty()
}

/// Starts the run. `text` is the user's message.
pub(super) async fn begin(
    ctx: &DoorRequest,
    model: &NamedModel,
    request: &ChatRequest,
    text: String,
    key: LookupKey,
) -> Result<AcceptedCompletion, OpenAiError> {
    let mut options = request.options.clone();
    options.client_tools.clear();
    let thread: ThreadId = format!("task-{}", threads::new_id(&ctx.app.service)).into();
    let config =
        ThreadConfig { agent_core: Some(CORE.to_owned()), enabled_tools: Some(Vec::new()), ..ThreadConfig::default() };
    let ask = NewThreadAsk { config, ..NewThreadAsk::default() };
    let new = NewRun {
        created: TemporaryThread::create_temporary(ctx, thread.clone(), ask).await?,
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
    let StartedRun { thread, run, start, temporary } = new.begin(ctx, model, None).await?;
    let (start, is_thread_named, is_retry) = (Some(start), false, false);
    Ok(AcceptedCompletion { thread, run, open: Vec::new(), start, is_thread_named, key, is_retry, temporary })
}
