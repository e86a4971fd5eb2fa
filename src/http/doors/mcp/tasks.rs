//! The tasks extension (`io.modelcontextprotocol/tasks`): if the client declares it, `ask` is answered with a task,
//! which the client polls. A task is a run under its own id. Any replica can report it, also after a restart, and
//! nothing else is stored for it.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::{McpRequest, report};
use super::envelope::RpcRequest;
use super::error::{McpError, RpcErrorKind};
use super::forms::{self, FormReply};
use super::round::{is_closed, may_ask_people};
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::RunId;
use crate::domain::run::{RunResource, RunStatus};
use crate::http::caller::permit;
use crate::http::guard::check_not_stopping;
use crate::service::runs::{self, Waited, WaitsFor};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The poll interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskMethod {
    Get,
    Update,
    Cancel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    task_id: String,
    #[serde(default)]
    input_responses: Map<String, Value>,
}

/// The response to `ask`: the new task.
pub(super) async fn created_task(ctx: &McpRequest, run: &RunId) -> Result<Value, Fault> {
    let run = runs::get(&ctx.app.service, &ctx.caller, run).await?;
    let mut task = outline(&run, "working");
    task["resultType"] = json!("task");
    Ok(task)
}

/// The response to a request of the extension. `None` if it is another request.
pub(super) async fn answer(ctx: &McpRequest, request: &RpcRequest) -> Result<Option<Value>, McpError> {
    let method = match request.method.as_str() {
        "tasks/get" => TaskMethod::Get,
        "tasks/update" => TaskMethod::Update,
        "tasks/cancel" => TaskMethod::Cancel,
        _ => return Ok(None),
    };
    if !ctx.client.is_modern {
        return Ok(None);
    }
    if !ctx.client.has_tasks {
        let required = json!({ "extensions": { EXTENSION: {} } });
        let error = McpError::new(RpcErrorKind::MissingCapability, format!("Declare the extension {EXTENSION}."));
        return Err(error.with_data(json!({ "requiredCapabilities": required })).with_status(400));
    }
    let params = serde_json::from_value::<Params>(Value::Object(request.params.clone()));
    let params = params.map_err(|error| McpError::new(RpcErrorKind::InvalidParams, format!("`params`: {error}.")))?;
    let run = RunId::from(params.task_id.as_str());
    let result = match method {
        TaskMethod::Get => get(ctx, &run).await,
        TaskMethod::Update => update(ctx, &run, &params.input_responses).await,
        TaskMethod::Cancel => cancel(ctx, &run).await,
    };
    result.map(Some).map_err(|fault| match fault.code {
        Code::NotFound => McpError::new(RpcErrorKind::InvalidParams, format!("There is no task `{run}`.")),
        _others => fault.into(),
    })
}

async fn waited(ctx: &McpRequest, run: &RunId) -> Result<Waited, Fault> {
    let at_once = std::time::Duration::ZERO;
    runs::wait_for(&ctx.app.service, &ctx.caller, run, WaitsFor::Question, at_once).await
}

async fn get(ctx: &McpRequest, run: &RunId) -> Result<Value, Fault> {
    permit(&ctx.caller, Scope::Read)?;
    let waited = waited(ctx, run).await?;
    let run = waited.run.clone();
    let asked = if may_ask_people(ctx) { requests(&waited) } else { Map::new() };
    let run_report = report(ctx, waited).await?;
    Ok(match run.status {
        RunStatus::Completed | RunStatus::Failed => {
            let mut task = outline(&run, "completed");
            task["result"] = ctx.client.result(run_report.result());
            task
        }
        RunStatus::Cancelled => outline(&run, "cancelled"),
        RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
            let mut task = outline(&run, if asked.is_empty() { "working" } else { "input_required" });
            task["statusMessage"] = json!(run_report.text());
            if !asked.is_empty() {
                task["inputRequests"] = Value::Object(asked);
            }
            task
        }
    })
}

/// The questions that a host can ask its user. Each key identifies the question in the form that was shown.
fn requests(waited: &Waited) -> Map<String, Value> {
    open(waited).iter().filter_map(|asked| Some((question_key(asked), forms::form(asked)?))).collect()
}

fn open(waited: &Waited) -> Vec<AskedQuestion> {
    waited.suspensions.iter().filter_map(|question| serde_json::from_value(question.clone()).ok()).collect()
}

fn question_key(asked: &AskedQuestion) -> String {
    format!("{}.{}", asked.suspension_id, asked.digest.as_deref().unwrap_or_default())
}

/// Submits people's answers. Questions that were answered elsewhere keep their answers. An answer that does not fit is
/// ignored, and its question is asked again.
async fn update(ctx: &McpRequest, run: &RunId, responses: &Map<String, Value>) -> Result<Value, Fault> {
    permit(&ctx.caller, Scope::Approve)?;
    check_not_stopping(&ctx.app)?;
    let waited = waited(ctx, run).await?;
    for asked in open(&waited) {
        let Some(response) = responses.get(&question_key(&asked)) else { continue };
        let FormReply::Answer(answer) = forms::parse_reply(&asked, response) else { continue };
        match runs::resume(&ctx.app.service, &ctx.caller, &waited.run.thread_id, *answer, None).await {
            Ok(_) => {}
            Err(fault) if is_closed(fault.code) || fault.code == Code::Invalid => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(json!({}))
}

async fn cancel(ctx: &McpRequest, run: &RunId) -> Result<Value, Fault> {
    permit(&ctx.caller, Scope::Run)?;
    check_not_stopping(&ctx.app)?;
    match runs::cancel(&ctx.app.service, &ctx.caller, run, None).await {
        Ok(_) => Ok(json!({})),
        // `tasks/get` says how the run ended.
        Err(fault) if fault.code == Code::RunFinished => Ok(json!({})),
        Err(fault) => Err(fault),
    }
}

fn outline(run: &RunResource, status: &str) -> Value {
    let timestamp = |at: i64| Timestamp::from_millisecond(at).map(|at| at.to_string()).unwrap_or_default();
    let changed = run.finished_at.or(run.started_at).unwrap_or(run.created_at);
    json!({
        "taskId": run.run_id, "status": status, "createdAt": timestamp(run.created_at), "lastUpdatedAt": timestamp(changed),
        "ttlMs": null, "pollIntervalMs": POLL_INTERVAL_MS,
    })
}
