//! `POST /agui`, `POST /agui/connect` and `GET /agui/capabilities`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::accept::{self, Accepted, Asker, Follow, KEPT};
use super::request::{self, ClientRun, RunAgentInput};
use super::stream;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::json::JsonBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::{runs, threads};
use crate::store::PageAsk;

/// How many messages or runs are read at once.
const CHUNK: u32 = 200;

/// Ask the agent, or answer its interrupts, as AG-UI's clients do.
#[utoipa::path(post, path = "/agui", operation_id = "runAgUi", tag = "ag-ui", request_body = Object,
    responses((status = 200, description = "Events of AG-UI", content((String = "text/event-stream")))))]
pub(crate) async fn run(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    sent: JsonBody<RunAgentInput>,
) -> HttpResult<Response> {
    let sent = request::read(&app, sent.value)?;
    let client = sent.run.clone();
    let asker = Asker { app, caller, preferences };
    Ok(match accept::accept(&asker, sent).await? {
        Accepted::Told(run, follow) => stream::told(asker, client, run, follow, Vec::new()).await?,
        Accepted::Refused(fault) => stream::refused(asker, &client, &fault),
    })
}

/// The conversation, and what goes on in it.
#[utoipa::path(post, path = "/agui/connect", operation_id = "connectAgUi", tag = "ag-ui", request_body = Object,
    responses((status = 200, description = "Events of AG-UI", content((String = "text/event-stream")))))]
pub(crate) async fn connect(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    sent: JsonBody<RunAgentInput>,
) -> HttpResult<Response> {
    let client = request::client(&app, &sent.value)?;
    let (said, last) = conversation(&app, &caller, &client).await?;
    let is_over = last.as_ref().is_none_or(|(_, is_over)| *is_over);
    let shown: Vec<Value> = said.iter().filter_map(message).collect();
    let snapshot = json!({ "type": "MESSAGES_SNAPSHOT", "messages": shown });
    let asker = Asker { app, caller, preferences };
    Ok(match last {
        Some((run, _)) if !is_over => stream::told(asker, client, run, Follow::Whole, vec![snapshot]).await?,
        _ => {
            let end = json!({ "type": "RUN_FINISHED", "threadId": client.thread, "runId": client.id });
            stream::few(asker, vec![stream::started(&client), snapshot, end])
        }
    })
}

/// What is said on the thread, and the run that changed last, with whether it is over; nothing of a thread that there is not.
async fn conversation(
    app: &AppState,
    caller: &Caller,
    client: &ClientRun,
) -> Result<(Vec<ConversationMessage>, Option<(RunId, bool)>), Fault> {
    let (service, thread) = (&app.service, &client.thread);
    let mut said = Vec::new();
    let mut ask = PageAsk { cursor: None, limit: CHUNK };
    loop {
        let page = match threads::messages(service, caller, thread, ask).await {
            Err(fault) if fault.code == Code::NotFound => return Ok((Vec::new(), None)),
            page => page?,
        };
        said.extend(page.items);
        let Some(cursor) = page.next_cursor else { break };
        ask = PageAsk { cursor: Some(cursor), limit: CHUNK };
    }
    let ask = PageAsk { cursor: None, limit: CHUNK };
    let runs = runs::list(service, caller, None, Some(thread), ask).await?.items;
    let last = runs.iter().find(|run| !run.status.is_terminal()).or(runs.first());
    Ok((said, last.map(|run| (run.run_id.clone(), run.status.is_terminal()))))
}

fn message(said: &ConversationMessage) -> Option<Value> {
    let kept = said.metadata.as_ref().and_then(|metadata| metadata.get(KEPT)?["id"].as_str());
    let id = kept.unwrap_or(said.message_id.as_str());
    let role = match said.role {
        MessageRole::User => "user",
        MessageRole::Ai => "assistant",
        MessageRole::System | MessageRole::Tool => return None,
    };
    Some(json!({ "id": id, "role": role, "content": said.content }))
}

/// What this agent can do, in the words of AG-UI.
#[utoipa::path(get, path = "/agui/capabilities", operation_id = "getAgUiCapabilities", tag = "ag-ui",
    responses((status = 200, body = Object)))]
pub(crate) async fn capabilities(_: MayRead, State(app): State<AppState>, _: NoParams) -> Json<Value> {
    let config = &app.config;
    Json(json!({
        "identity": { "name": config.a2a.name, "version": env!("CARGO_PKG_VERSION") },
        "transport": { "streaming": true, "websocket": false, "resumable": false },
        "tools": { "supported": true, "clientProvided": true },
        "state": { "snapshots": true, "deltas": true, "persistentState": true },
        "multiAgent": { "delegation": true },
        "reasoning": { "supported": true, "streaming": true },
        "humanInTheLoop": {
            "supported": true, "approvals": true, "interrupts": true, "approveWithEdits": true, "interventions": false,
        },
    }))
}
