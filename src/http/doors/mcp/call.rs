//! `tools/call`: calls one of the tools.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::arguments::{self, Cancel, Query, Status};
use super::client::McpClient;
use super::error::{McpError, RpcErrorKind};
use super::round::{Round, may_ask_people};
use super::run_report::RunReport;
use super::tasks;
use super::tools::Tool;
use crate::auth::Pass;
use crate::domain::caller::{Caller, Scope};
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::request_trace::RequestTrace;
use crate::domain::run::RunStatus;
use crate::domain::thread::ThreadStatus;
use crate::http::app_state::AppState;
use crate::http::caller::permit;
use crate::http::doors::nesting;
use crate::http::guard::check_not_stopping;
use crate::http::ids::new_thread_id;
use crate::service::once::{Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, Receipt, Waited, WaitsFor};
use crate::service::{plan, suspensions, threads};

/// An authenticated MCP request.
#[derive(Clone)]
pub(super) struct McpRequest {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) pass: Pass,
    pub(super) client: McpClient,
    pub(super) trace: RequestTrace,
}

/// The outcome of a call.
pub(super) enum CallOutcome {
    /// The result is known.
    Done(Value),
    /// The result is known when a run ends or asks something.
    Waits(RunWait),
}

/// The run to wait for, and for how long.
pub(super) struct RunWait {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    /// The run's status before the wait.
    pub(super) status: RunStatus,
    /// Set if the run's questions are passed to the host.
    pub(super) round: Option<Round>,
    pub(super) at_most: Duration,
    /// Whether the run is cancelled when the client closes the stream, which is how such a client cancels a request.
    pub(super) cancels_on_close: bool,
}

pub(super) async fn call(ctx: &McpRequest, mut params: Map<String, Value>) -> Result<CallOutcome, McpError> {
    let wrong = |how: String| McpError::new(RpcErrorKind::InvalidParams, how);
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Err(wrong("`name` is missing.".to_owned()));
    };
    let tool =
        Tool::named(name).ok_or_else(|| wrong(format!("There is no tool `{name}`; tools/list tells which are.")))?;
    permit(&ctx.caller, tool.scope())?;
    if tool != Tool::Status {
        check_not_stopping(&ctx.app)?;
    }
    let arguments = arguments::of(&mut params);
    let ctx = &McpRequest { trace: nesting::trace_of_call(&params, &ctx.trace), ..ctx.clone() };
    let called = match tool {
        Tool::Ask => match Round::of(ctx, &params)? {
            Some(round) => continue_call(ctx, arguments, round, params.get("inputResponses")).await,
            None => ask(ctx, arguments).await,
        },
        Tool::Start => start(ctx, arguments).await,
        Tool::Status => status(ctx, arguments).await,
        Tool::Cancel => cancel(ctx, arguments).await,
        Tool::Answer => answer(ctx, arguments).await,
    };
    called.or_else(|fault| Ok(CallOutcome::Done(tool_error(fault)?)))
}

/// The model's own mistakes become a result that the model reads. Every other fault is an error for the host.
pub(super) fn tool_error(fault: Fault) -> Result<Value, McpError> {
    if matches!(fault.code.status(), 400 | 404 | 409 | 410 | 412 | 422) {
        return Ok(json!({ "content": [{ "type": "text", "text": sentence(&fault) }], "isError": true }));
    }
    Err(fault.into())
}

/// The fault as one text: what is wrong, and where.
fn sentence(fault: &Fault) -> String {
    let unsaid = fault.errors.iter().filter(|pointed| !fault.detail.contains(&pointed.detail));
    let places = unsaid.map(|pointed| format!(" `{}` {}.", pointed.pointer.trim_start_matches('/'), pointed.detail));
    format!("{}{}", fault.detail, places.collect::<String>())
}

async fn ask(ctx: &McpRequest, arguments: Value) -> Result<CallOutcome, Fault> {
    let query = Query::ask(arguments)?;
    let wait = Duration::from_secs(query.wait()?);
    let receipt = accept(ctx, &query).await?;
    if ctx.client.has_tasks {
        return Ok(CallOutcome::Done(tasks::created_task(ctx, &receipt.run_id).await?));
    }
    Ok(CallOutcome::Waits(RunWait {
        round: may_ask_people(ctx).then(|| Round::first(receipt.run_id.clone())),
        run: receipt.run_id,
        thread: receipt.thread_id,
        status: receipt.status,
        at_most: wait,
        cancels_on_close: ctx.client.is_modern && query.idempotency_key.is_none(),
    }))
}

/// The same call again, with people's answers. It continues to wait for its run. Answers need `approve` now: the state
/// only says that the caller had it when it was asked.
async fn continue_call(
    ctx: &McpRequest,
    arguments: Value,
    mut round: Round,
    responses: Option<&Value>,
) -> Result<CallOutcome, Fault> {
    let wait = Duration::from_secs(Query::ask(arguments)?.wait()?);
    let found = runs::get(&ctx.app.service, &ctx.caller, &round.run).await?;
    if let Some(responses) = responses {
        permit(&ctx.caller, Scope::Approve)?;
        round.submit_answers(ctx, &found.thread_id, responses).await?;
    }
    Ok(CallOutcome::Waits(RunWait {
        run: found.run_id,
        thread: found.thread_id,
        status: found.status,
        round: may_ask_people(ctx).then_some(round),
        at_most: wait,
        cancels_on_close: false,
    }))
}

async fn start(ctx: &McpRequest, arguments: Value) -> Result<CallOutcome, Fault> {
    let receipt = accept(ctx, &Query::start(arguments)?).await?;
    report_run(ctx, &receipt.run_id).await
}

async fn status(ctx: &McpRequest, arguments: Value) -> Result<CallOutcome, Fault> {
    let status = Status::read(arguments)?;
    let run = RunId::from(status.run_id.as_str());
    match status.wait()? {
        0 => report_run(ctx, &run).await,
        seconds => {
            let found = runs::get(&ctx.app.service, &ctx.caller, &run).await?;
            Ok(CallOutcome::Waits(RunWait {
                run,
                thread: found.thread_id,
                status: found.status,
                round: None,
                at_most: Duration::from_secs(seconds),
                cancels_on_close: false,
            }))
        }
    }
}

async fn cancel(ctx: &McpRequest, arguments: Value) -> Result<CallOutcome, Fault> {
    let run = RunId::from(Cancel::read(arguments)?.run_id);
    match runs::cancel(&ctx.app.service, &ctx.caller, &run, None).await {
        Ok(Answered::Fresh(_) | Answered::Replayed(_)) => {}
        // The run's result says how it ended.
        Err(fault) if fault.code == Code::RunFinished => {}
        Err(fault) => return Err(fault),
    }
    report_run(ctx, &run).await
}

async fn answer(ctx: &McpRequest, arguments: Value) -> Result<CallOutcome, Fault> {
    let service = &ctx.app.service;
    let answer = arguments::answer(arguments)?;
    let asked = suspensions::get(service, &ctx.caller, &answer.suspension_id).await?;
    runs::resume(service, &ctx.caller, &asked.thread_id, answer, None).await?;
    report_run(ctx, &asked.run_id).await
}

/// The run is committed when this returns.
async fn accept(ctx: &McpRequest, query: &Query) -> Result<Receipt, Fault> {
    let service = &ctx.app.service;
    let thread = match &query.thread {
        Some(id) => new_thread_id(id, ctx.app.config.limits.id_length, "/thread")?,
        None => ThreadId::from(format!("mcp-{}", threads::new_id(service).as_str().trim_start_matches("thr_"))),
    };
    let once = query.idempotency_key.as_ref().map(|key| Idempotent {
        key: digest::of(&Value::from(key.as_str())),
        scope: format!("MCP {}", ctx.caller.name),
        fingerprint: digest::of(&query.fingerprint()),
    });
    let trace = Some(nesting::nested_trace(ctx.trace.clone()).ok_or_else(too_deep)?);
    let ask = ProcessAsk { query: query.query.clone(), trace, ..ProcessAsk::default() };
    runs::process(service, &ctx.caller, &thread, ask, once).await?.into_value()
}

fn too_deep() -> Fault {
    Fault::new(Code::Invalid, nesting::TOO_DEEP)
}

async fn report_run(ctx: &McpRequest, run: &RunId) -> Result<CallOutcome, Fault> {
    let waited = runs::wait_for(&ctx.app.service, &ctx.caller, run, WaitsFor::Suspension, Duration::ZERO).await?;
    Ok(CallOutcome::Done(report(ctx, waited).await?.result()))
}

/// A report of the run and its plan.
pub(super) async fn report(ctx: &McpRequest, waited: Waited) -> Result<RunReport, Fault> {
    let (service, thread) = (&ctx.app.service, &waited.run.thread_id);
    let items = plan::items(service, &ctx.caller, thread).await?;
    let is_thread_suspended = waited.run.status == RunStatus::Queued
        && threads::get(service, &ctx.caller, thread).await?.status == ThreadStatus::Suspended;
    Ok(RunReport::of(waited, items, ctx.caller.may(Scope::Approve), is_thread_suspended))
}
