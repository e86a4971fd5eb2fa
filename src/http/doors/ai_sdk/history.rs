//! `GET /api/chat/{thread}`: the conversation, for a page that reloads.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::events::{MessageChunks, MessageContext};
use super::message::UiMessage;
use super::request::METADATA_KEY;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::doors::frames::DecodedObservation;
use crate::http::doors::shown_conversation;
use crate::http::ids::Ids;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::suspensions;

/// The messages of a chat, as `useChat` takes them, with what the agent asks now; none of a chat that has not begun.
#[utoipa::path(get, path = "/api/chat/{thread}", operation_id = "getChat", tag = "ai-sdk",
    responses((status = 200, body = Object, description = "`{id, messages}`, each a `UIMessage`")))]
pub(crate) async fn messages(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<Value>> {
    let thread = ids.thread()?;
    let messages = shown_conversation::messages(&app, &caller, &thread).await?;
    let answers = if messages.is_empty() { HashMap::new() } else { answers(&app, &caller, &thread, &messages).await? };
    Ok(Json(json!({ "id": thread, "messages": ui_messages(&messages, &answers) })))
}

/// The message of each run, built from its observations.
async fn answers(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    messages: &[ConversationMessage],
) -> Result<HashMap<RunId, UiMessage>, Fault> {
    let (may_approve, urls) = (caller.may(Scope::Approve), suspensions::urls(&app.service));
    let begin = |run: &RunId| {
        let context = MessageContext { thread: thread.clone(), run: run.clone(), may_approve, urls: urls.clone() };
        let (mut events, mut message) = (MessageChunks::new(context), UiMessage::default());
        events.begin(&[], &HashSet::new()).into_iter().for_each(|chunk| message.apply(chunk));
        (events, message)
    };
    let apply = |(events, message): &mut (MessageChunks, UiMessage), observation: &DecodedObservation| {
        events.observation(observation).into_iter().for_each(|chunk| message.apply(chunk));
    };
    let shown = (messages, &MessageChunks::OBSERVATION_TYPES[..]);
    let runs = shown_conversation::of_each_run(app, caller, thread, shown, begin, apply).await?;
    Ok(runs.into_iter().map(|(run, (_, message))| (run, message)).collect())
}

/// The users' messages. After the last message of each run follows the message built from that run.
fn ui_messages(messages: &[ConversationMessage], answers: &HashMap<RunId, UiMessage>) -> Vec<Value> {
    let last = shown_conversation::last_of_each_run(messages);
    let mut shown = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let is_answer = message.role == MessageRole::Ai;
        if message.role == MessageRole::User {
            shown.push(of_user(message));
        }
        let answer = message.run_id.as_ref().filter(|run| last.get(*run) == Some(&at)).and_then(|run| answers.get(run));
        match answer {
            Some(answer) if is_answer && !answer.has_text() => {
                // The run failed, or the log was compacted.
                let mut answer = answer.clone();
                answer.add_text(&message.content);
                answer.add_metadata(failure(message).unwrap_or_default());
                shown.push(answer.json());
            }
            Some(answer) => shown.push(answer.json()),
            None if is_answer => shown.push(of_agent(message)),
            None => {}
        }
    }
    shown
}

/// The id that the client has for a message: its own id for a user's message, the run's id for an agent's message.
pub(super) fn id_of(message: &ConversationMessage) -> &str {
    let own = message.message_id.as_str();
    if message.role == MessageRole::User {
        client_id(message).unwrap_or(own)
    } else {
        message.run_id.as_ref().map_or(own, RunId::as_str)
    }
}

/// The id that a client of this protocol gave to the user's message.
pub(super) fn client_id(message: &ConversationMessage) -> Option<&str> {
    message.metadata.as_ref().and_then(|metadata| metadata.get(METADATA_KEY)?["id"].as_str())
}

fn of_user(message: &ConversationMessage) -> Value {
    json!({ "id": id_of(message), "role": "user", "parts": [{ "type": "text", "text": message.content }] })
}

fn of_agent(message: &ConversationMessage) -> Value {
    let mut shown = json!({
        "id": id_of(message), "role": "assistant",
        "parts": [{ "type": "text", "text": message.content, "state": "done" }],
    });
    if let Some(failure) = failure(message) {
        shown["metadata"] = failure;
    }
    shown
}

/// The metadata of a message that says why its run failed, so that a page can show it as an error.
fn failure(message: &ConversationMessage) -> Option<Value> {
    let error = message.metadata.as_ref()?.get(ConversationMessage::ERROR)?;
    Some(json!({ "status": "failed", "error": { "code": error["code"], "message": error["message"] } }))
}
