//! The conversation as a client has it that heard every event of it: what its own reducer would have made of them, under the
//! same ids, so that a snapshot moves nothing.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::accept::KEPT;
use super::events::{AguiEvents, Origin};
use super::messages::Messages;
use super::request::ClientRun;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::observation::ObservationType;
use crate::http::app_state::AppState;
use crate::http::doors::conversation;

/// What messages are made of.
const HEARD: [ObservationType; 5] = [
    ObservationType::LlmStreamStart,
    ObservationType::LlmStreamError,
    ObservationType::ToolCall,
    ObservationType::ToolExecution,
    ObservationType::FinalResponse,
];

/// None of a thread that there is not yet.
pub(super) async fn shown(app: &AppState, caller: &Caller, thread: &ThreadId) -> Result<Vec<Value>, Fault> {
    let said = conversation::said_so_far(app, caller, thread).await?;
    if said.is_empty() {
        return Ok(Vec::new());
    }
    let mut runs: HashMap<RunId, (AguiEvents, Messages)> = HashMap::new();
    conversation::told(app, caller, thread, &HEARD, |told| {
        let (events, messages) = runs.entry(told.run.clone()).or_insert_with(|| {
            let client = ClientRun { thread: thread.clone(), id: String::new(), is_one: true };
            (AguiEvents::new(client, told.run.clone()), Messages::default())
        });
        events.observation(&Origin::default(), &told).iter().for_each(|event| messages.hears(event));
    })
    .await?;
    let runs = runs.into_iter().map(|(run, (_, messages))| (run, messages)).collect();
    Ok(in_order(&said, &runs))
}

/// People's messages, and behind the last one of each run those of that run.
fn in_order(said: &[ConversationMessage], runs: &HashMap<RunId, Messages>) -> Vec<Value> {
    let last = conversation::ends_of_runs(said);
    let mut shown = Vec::new();
    for (at, message) in said.iter().enumerate() {
        if message.role == MessageRole::User {
            shown.push(of_user(message));
        }
        let is_last = |run: &&RunId| last.get(*run) == Some(&at);
        let of_run = message.run_id.as_ref().filter(is_last).and_then(|run| runs.get(run));
        shown.extend(of_run.iter().flat_map(|messages| messages.all()).cloned());
        // It failed, or was said elsewhere, or the log was shortened.
        if message.role == MessageRole::Ai && !of_run.is_some_and(Messages::has_text) {
            shown.push(json!({ "id": message.message_id, "role": "assistant", "content": message.content }));
        }
    }
    shown
}

fn of_user(said: &ConversationMessage) -> Value {
    let kept = said.metadata.as_ref().and_then(|metadata| metadata.get(KEPT)?["id"].as_str());
    json!({ "id": kept.unwrap_or(said.message_id.as_str()), "role": "user", "content": said.content })
}
