//! `POST /agui`, `POST /agui/connect` and `GET /agui/capabilities`.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::accept::{self, AcceptOutcome, StreamStart};
use super::conversation;
use super::cursor::Cursor;
use super::request::{self, RunAgentInput};
use super::stream;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::unfinished_runs;
use crate::http::json::JsonBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;

/// Ask the agent, or answer its interrupts, as AG-UI's clients do.
#[utoipa::path(post, path = "/agui", operation_id = "runAgUi", tag = "ag-ui", request_body = Object,
    responses((status = 200, description = "Events of AG-UI", content((String = "text/event-stream")))))]
pub(crate) async fn run(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    JsonBody(sent): JsonBody<RunAgentInput>,
) -> HttpResult<Response> {
    let sent = request::read(&app, sent)?;
    let client = sent.run.clone();
    let ctx = DoorRequest { app, caller, preferences };
    Ok(match accept::accept(&ctx, sent).await? {
        AcceptOutcome::Streaming(run, from) => stream::respond(ctx, client, run, from, None).await?,
        AcceptOutcome::Refused(fault) => stream::refused(ctx, &client, &fault),
    })
}

/// The conversation, and what goes on in it; with `Last-Event-ID`, what of a stream that was cut follows that event.
#[utoipa::path(post, path = "/agui/connect", operation_id = "connectAgUi", tag = "ag-ui", request_body = Object,
    params(("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, description = "Events of AG-UI", content((String = "text/event-stream")))))]
pub(crate) async fn connect(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    headers: HeaderMap,
    _: NoParams,
    JsonBody(sent): JsonBody<RunAgentInput>,
) -> HttpResult<Response> {
    let client = request::client(&app, &sent)?;
    let cursor = cursor(&headers)?;
    let conversation = async || {
        let shown = conversation::snapshot(&app, &caller, &client.thread).await?;
        Ok::<_, Fault>(json!({ "type": "MESSAGES_SNAPSHOT", "messages": shown }))
    };
    if let Some(cursor) = cursor {
        let snapshot = if cursor.segment.has_snapshot { Some(conversation().await?) } else { None };
        let run = cursor.segment.run.clone();
        let ctx = DoorRequest { app, caller, preferences };
        return Ok(stream::respond(ctx, client, run, StreamStart::AfterCut(cursor), snapshot).await?);
    }
    let snapshot = conversation().await?;
    let active = active_on(&app, &caller, &client.thread).await?;
    let ctx = DoorRequest { app, caller, preferences };
    Ok(match active {
        Some(run) => stream::respond(ctx, client, run, StreamStart::Whole, Some(snapshot)).await?,
        None => {
            let end = json!({ "type": "RUN_FINISHED", "threadId": client.thread, "runId": client.id });
            stream::fixed_events(ctx, vec![stream::started(&client), snapshot, end])
        }
    })
}

/// The cursor in `Last-Event-ID`.
fn cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Fault> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = value.to_str().ok().and_then(|text| text.parse().ok());
    let refuse = || Fault::new(Code::Malformed, "Last-Event-ID must be the id of an event of /agui.");
    cursor.map(Some).ok_or_else(refuse)
}

/// The running or suspended run, else a queued one. `None` also if the thread does not exist yet.
async fn active_on(app: &AppState, caller: &Caller, thread: &ThreadId) -> Result<Option<RunId>, Fault> {
    let runs = unfinished_runs(app, caller, thread).await?;
    let active = runs.iter().find(|(_, status)| *status != RunStatus::Queued).or_else(|| runs.first());
    Ok(active.map(|(run, _)| run.clone()))
}

/// What this agent can do, in the words of AG-UI.
#[utoipa::path(get, path = "/agui/capabilities", operation_id = "getAgUiCapabilities", tag = "ag-ui",
    responses((status = 200, body = Object)))]
pub(crate) async fn capabilities(_: MayRead, State(app): State<AppState>, _: NoParams) -> Json<Value> {
    let config = &app.config;
    Json(json!({
        "identity": { "name": config.a2a.name, "version": env!("CARGO_PKG_VERSION") },
        "transport": { "streaming": true, "websocket": false, "resumable": true },
        "tools": { "supported": true, "clientProvided": true },
        "state": { "snapshots": true, "deltas": true, "persistentState": true },
        "multiAgent": { "delegation": true },
        "reasoning": { "supported": true, "streaming": true },
        "humanInTheLoop": {
            "supported": true, "approvals": true, "interrupts": true, "approveWithEdits": true, "interventions": false,
        },
    }))
}
