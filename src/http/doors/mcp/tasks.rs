//! The extension for tasks (`io.modelcontextprotocol/tasks`): a call of `ask` by a client that declares it is answered with a
//! task, which the client asks after. A task is a run under its own id: any replica tells how it stands, also after a
//! restart, and nothing is kept for it.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::{Asker, stands};
use super::envelope::RpcRequest;
use super::forms::{self, Said};
use super::refusal::{Error, Refusal};
use super::round::{is_past, may_ask};
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::RunId;
use crate::domain::run::{RunResource, RunStatus};
use crate::http::caller::permit;
use crate::service::runs::{self, Waited, WaitsFor};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How often a client is to ask, in milliseconds.
const POLL_EVERY: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
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

/// The answer to `ask`: the task, as it begins.
pub(super) async fn begun(asker: &Asker, run: &RunId) -> Result<Value, Fault> {
    let run = runs::get(&asker.app.service, &asker.caller, run).await?;
    let mut task = outline(&run, "working");
    task["resultType"] = json!("task");
    Ok(task)
}

/// What a request of the extension is answered with; `None`: it is no such request.
pub(super) async fn answer(asker: &Asker, request: &RpcRequest) -> Result<Option<Value>, Refusal> {
    let method = match request.method.as_str() {
        "tasks/get" => Method::Get,
        "tasks/update" => Method::Update,
        "tasks/cancel" => Method::Cancel,
        _ => return Ok(None),
    };
    if !asker.client.is_modern {
        return Ok(None);
    }
    if !asker.client.has_tasks {
        let required = json!({ "extensions": { EXTENSION: {} } });
        let refusal = Refusal::new(Error::MissingCapability, format!("Declare the extension {EXTENSION}."));
        return Err(refusal.with_data(json!({ "requiredCapabilities": required })).with_status(400));
    }
    let params = serde_json::from_value::<Params>(Value::Object(request.params.clone()));
    let params = params.map_err(|error| Refusal::new(Error::InvalidParams, format!("`params`: {error}.")))?;
    let run = RunId::from(params.task_id.as_str());
    let told = match method {
        Method::Get => get(asker, &run).await,
        Method::Update => update(asker, &run, &params.input_responses).await,
        Method::Cancel => cancel(asker, &run).await,
    };
    told.map(Some).map_err(|fault| match fault.code {
        Code::NotFound => Refusal::new(Error::InvalidParams, format!("There is no task `{run}`.")),
        _others => fault.into(),
    })
}

async fn waited(asker: &Asker, run: &RunId) -> Result<Waited, Fault> {
    let at_once = std::time::Duration::ZERO;
    runs::wait_for(&asker.app.service, &asker.caller, run, WaitsFor::Question, at_once).await
}

async fn get(asker: &Asker, run: &RunId) -> Result<Value, Fault> {
    permit(&asker.caller, Scope::Read)?;
    let waited = waited(asker, run).await?;
    let run = waited.run.clone();
    let asked = if may_ask(asker) { requests(&waited) } else { Map::new() };
    let standing = stands(asker, waited).await?;
    Ok(match run.status {
        RunStatus::Completed | RunStatus::Failed => {
            let mut task = outline(&run, "completed");
            task["result"] = asker.client.result(standing.result());
            task
        }
        RunStatus::Cancelled => outline(&run, "cancelled"),
        RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
            let mut task = outline(&run, if asked.is_empty() { "working" } else { "input_required" });
            task["statusMessage"] = json!(standing.text());
            if !asked.is_empty() {
                task["inputRequests"] = Value::Object(asked);
            }
            task
        }
    })
}

/// What a host can ask its user, each under a name that says what was shown.
fn requests(waited: &Waited) -> Map<String, Value> {
    open(waited).iter().filter_map(|asked| Some((named(asked), forms::form(asked)?))).collect()
}

fn open(waited: &Waited) -> Vec<AskedQuestion> {
    waited.suspensions.iter().filter_map(|question| serde_json::from_value(question.clone()).ok()).collect()
}

fn named(asked: &AskedQuestion) -> String {
    format!("{}.{}", asked.suspension_id, asked.digest.as_deref().unwrap_or_default())
}

/// Hands over what people answered. What was answered elsewhere stays as it is, and what is no answer is asked again.
async fn update(asker: &Asker, run: &RunId, responses: &Map<String, Value>) -> Result<Value, Fault> {
    permit(&asker.caller, Scope::Approve)?;
    let waited = waited(asker, run).await?;
    for asked in open(&waited) {
        let Some(response) = responses.get(&named(&asked)) else { continue };
        let Said::Answer(answer) = forms::said(&asked, response) else { continue };
        match runs::resume(&asker.app.service, &asker.caller, &waited.run.thread_id, *answer, None).await {
            Ok(_) => {}
            Err(fault) if is_past(fault.code) || fault.code == Code::Invalid => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(json!({}))
}

async fn cancel(asker: &Asker, run: &RunId) -> Result<Value, Fault> {
    permit(&asker.caller, Scope::Run)?;
    match runs::cancel(&asker.app.service, &asker.caller, run, None).await {
        Ok(_) => Ok(json!({})),
        // How it ended is told to who asks after it.
        Err(fault) if fault.code == Code::RunFinished => Ok(json!({})),
        Err(fault) => Err(fault),
    }
}

fn outline(run: &RunResource, status: &str) -> Value {
    let told = |at: i64| Timestamp::from_millisecond(at).map(|at| at.to_string()).unwrap_or_default();
    let changed = run.finished_at.or(run.started_at).unwrap_or(run.created_at);
    json!({
        "taskId": run.run_id, "status": status, "createdAt": told(run.created_at), "lastUpdatedAt": told(changed),
        "ttlMs": null, "pollIntervalMs": POLL_EVERY,
    })
}
