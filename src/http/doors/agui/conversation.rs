//! Builds the conversation as a client has it that received every event: the messages that the client's own reducer
//! would have built, under the same ids. So a snapshot does not move any message.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::events::AguiEvents;
use super::messages::ClientMessages;
use super::request::{ClientRun, METADATA_KEY};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::observation::ObservationType;
use crate::http::app_state::AppState;
use crate::http::doors::frames::DecodedObservation;
use crate::http::doors::shown_conversation;

/// The observation types that contribute to messages.
const OBSERVATION_TYPES: [ObservationType; 5] = [
    ObservationType::LlmStreamStart,
    ObservationType::LlmStreamError,
    ObservationType::ToolCall,
    ObservationType::ToolExecution,
    ObservationType::FinalResponse,
];

/// Empty if the thread does not exist yet.
pub(super) async fn snapshot(app: &AppState, caller: &Caller, thread: &ThreadId) -> Result<Vec<Value>, Fault> {
    let stored = shown_conversation::messages(app, caller, thread).await?;
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let begin = |run: &RunId| {
        let thread = thread.clone();
        let client = ClientRun { thread, id: String::new(), speaks_v1: true, results: HashSet::new() };
        (AguiEvents::new(client, run.clone()), ClientMessages::default())
    };
    let apply = |(events, messages): &mut (AguiEvents, ClientMessages), observation: &DecodedObservation| {
        events.observation(observation).iter().for_each(|event| messages.apply(event));
    };
    let shown = (&stored[..], &OBSERVATION_TYPES[..]);
    let runs = shown_conversation::of_each_run(app, caller, thread, shown, begin, apply).await?;
    let runs = runs.into_iter().map(|(run, (_, messages))| (run, messages)).collect();
    Ok(in_order(&stored, &runs))
}

/// The users' messages. After the last message of each run follow the messages built from that run.
fn in_order(stored: &[ConversationMessage], runs: &HashMap<RunId, ClientMessages>) -> Vec<Value> {
    let last = shown_conversation::last_of_each_run(stored);
    let mut shown = Vec::new();
    for (at, message) in stored.iter().enumerate() {
        if message.role == MessageRole::User {
            shown.push(of_user(message));
        }
        let is_last = |run: &&RunId| last.get(*run) == Some(&at);
        let of_run = message.run_id.as_ref().filter(is_last).and_then(|run| runs.get(run));
        shown.extend(of_run.iter().flat_map(|messages| messages.all()).cloned());
        // The run failed, or the message was written elsewhere, or the log was compacted.
        if message.role == MessageRole::Ai && !of_run.is_some_and(ClientMessages::has_text) {
            shown.push(json!({ "id": message.message_id, "role": "assistant", "content": message.content }));
        }
    }
    shown
}

fn of_user(stored: &ConversationMessage) -> Value {
    let id = client_id(stored).unwrap_or(stored.message_id.as_str());
    json!({ "id": id, "role": "user", "content": stored.content })
}

/// The id that a client of this protocol gave to the user's message.
pub(super) fn client_id(stored: &ConversationMessage) -> Option<&str> {
    stored.metadata.as_ref().and_then(|metadata| metadata.get(METADATA_KEY)?["id"].as_str())
}
