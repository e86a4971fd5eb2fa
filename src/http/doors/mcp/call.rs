//! `tools/call`: what a call comes to.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::arguments::{self, Cancel, Query, Status};
use super::client::Client;
use super::nesting;
use super::refusal::{Error, Refusal};
use super::round::{Round, may_ask};
use super::tasks;
use super::told::Standing;
use super::tools::Tool;
use crate::auth::Pass;
use crate::domain::caller::{Caller, Scope};
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::app_state::AppState;
use crate::http::caller::permit;
use crate::http::ids::new_thread_id;
use crate::http::trace::TraceId;
use crate::service::once::{Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, Receipt, Waited, WaitsFor};
use crate::service::{plan, suspensions, threads};

/// Who calls.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) pass: Pass,
    pub(super) client: Client,
    pub(super) trace: TraceId,
}

/// What a call comes to.
pub(super) enum Called {
    /// Its result.
    Done(Value),
    /// A run that is waited for.
    Waits(Wait),
}

/// What is waited for, and for how long.
pub(super) struct Wait {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    /// As it stood before.
    pub(super) status: RunStatus,
    /// Where the host is asked what the run asks.
    pub(super) round: Option<Round>,
    pub(super) at_most: Duration,
    /// Whether the run ends with the stream, where the client means that by closing it.
    pub(super) is_taken_back: bool,
}

pub(super) async fn call(asker: &Asker, mut params: Map<String, Value>) -> Result<Called, Refusal> {
    let wrong = |how: String| Refusal::new(Error::InvalidParams, how);
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Err(wrong("`name` is missing.".to_owned()));
    };
    let tool =
        Tool::named(name).ok_or_else(|| wrong(format!("There is no tool `{name}`; tools/list tells which are.")))?;
    permit(&asker.caller, tool.scope())?;
    let arguments = arguments::of(&mut params);
    let asker = &Asker { trace: nesting::named(&params, &asker.trace), ..asker.clone() };
    let called = match tool {
        Tool::Ask => match Round::of(asker, &params)? {
            Some(round) => go_on(asker, arguments, round, params.get("inputResponses")).await,
            None => ask(asker, arguments).await,
        },
        Tool::Start => start(asker, arguments).await,
        Tool::Status => status(asker, arguments).await,
        Tool::Cancel => cancel(asker, arguments).await,
        Tool::Answer => answer(asker, arguments).await,
    };
    called.or_else(|fault| Ok(Called::Done(failed(fault)?)))
}

/// What the model is told that called: its own mistakes. Everything else is for the host.
pub(super) fn failed(fault: Fault) -> Result<Value, Refusal> {
    if matches!(fault.code.status(), 400 | 404 | 409 | 410 | 412 | 422) {
        return Ok(json!({ "content": [{ "type": "text", "text": sentence(&fault) }], "isError": true }));
    }
    Err(fault.into())
}

/// What is wrong, and where.
fn sentence(fault: &Fault) -> String {
    let unsaid = fault.errors.iter().filter(|pointed| !fault.detail.contains(&pointed.detail));
    let places = unsaid.map(|pointed| format!(" `{}` {}.", pointed.pointer.trim_start_matches('/'), pointed.detail));
    format!("{}{}", fault.detail, places.collect::<String>())
}

async fn ask(asker: &Asker, arguments: Value) -> Result<Called, Fault> {
    let query = Query::ask(arguments)?;
    let wait = Duration::from_secs(query.wait()?);
    let receipt = accept(asker, &query).await?;
    if asker.client.has_tasks {
        return Ok(Called::Done(tasks::begun(asker, &receipt.run_id).await?));
    }
    Ok(Called::Waits(Wait {
        round: may_ask(asker).then(|| Round::first(receipt.run_id.clone())),
        run: receipt.run_id,
        thread: receipt.thread_id,
        status: receipt.status,
        at_most: wait,
        is_taken_back: asker.client.is_modern && query.idempotency_key.is_none(),
    }))
}

/// The same call again, with what people answered: it goes on waiting for its run.
async fn go_on(asker: &Asker, arguments: Value, mut round: Round, responses: Option<&Value>) -> Result<Called, Fault> {
    let wait = Duration::from_secs(Query::ask(arguments)?.wait()?);
    let found = runs::get(&asker.app.service, &asker.caller, &round.run).await?;
    if let Some(responses) = responses {
        round.take(asker, &found.thread_id, responses).await?;
    }
    Ok(Called::Waits(Wait {
        run: found.run_id,
        thread: found.thread_id,
        status: found.status,
        round: may_ask(asker).then_some(round),
        at_most: wait,
        is_taken_back: false,
    }))
}

async fn start(asker: &Asker, arguments: Value) -> Result<Called, Fault> {
    let receipt = accept(asker, &Query::start(arguments)?).await?;
    standing(asker, &receipt.run_id).await
}

async fn status(asker: &Asker, arguments: Value) -> Result<Called, Fault> {
    let status = Status::read(arguments)?;
    let run = RunId::from(status.run_id.as_str());
    match status.wait()? {
        0 => standing(asker, &run).await,
        seconds => {
            let found = runs::get(&asker.app.service, &asker.caller, &run).await?;
            Ok(Called::Waits(Wait {
                run,
                thread: found.thread_id,
                status: found.status,
                round: None,
                at_most: Duration::from_secs(seconds),
                is_taken_back: false,
            }))
        }
    }
}

async fn cancel(asker: &Asker, arguments: Value) -> Result<Called, Fault> {
    let run = RunId::from(Cancel::read(arguments)?.run_id);
    match runs::cancel(&asker.app.service, &asker.caller, &run, None).await {
        Ok(Answered::Fresh(_) | Answered::Replayed { .. }) => {}
        // It says itself how it ended.
        Err(fault) if fault.code == Code::RunFinished => {}
        Err(fault) => return Err(fault),
    }
    standing(asker, &run).await
}

async fn answer(asker: &Asker, arguments: Value) -> Result<Called, Fault> {
    let service = &asker.app.service;
    let answer = arguments::answer(arguments)?;
    let asked = suspensions::get(service, &asker.caller, &answer.suspension_id).await?;
    runs::resume(service, &asker.caller, &asked.thread_id, answer, None).await?;
    standing(asker, &asked.run_id).await
}

/// Durable when it returns.
async fn accept(asker: &Asker, query: &Query) -> Result<Receipt, Fault> {
    let service = &asker.app.service;
    let thread = match &query.thread {
        Some(id) => new_thread_id(id, asker.app.config.limits.id_length, "/thread")?,
        None => ThreadId::from(format!("mcp-{}", threads::new_id(service).as_str().trim_start_matches("thr_"))),
    };
    let once = query.idempotency_key.as_ref().map(|key| Idempotent {
        key: digest::of(&Value::from(key.as_str())),
        scope: format!("MCP {}", asker.caller.name),
        fingerprint: digest::of(&query.fingerprint()),
    });
    let TraceId(trace, origin) = nesting::deeper(asker.trace.clone()).ok_or_else(too_deep)?;
    let ask = ProcessAsk { query: query.query.clone(), trace: Some((trace, origin)), ..ProcessAsk::default() };
    runs::process(service, &asker.caller, &thread, ask, once).await?.into_value()
}

fn too_deep() -> Fault {
    let detail = "Agents have called one another too often inside one another; answer without another call.";
    Fault::new(Code::Invalid, detail)
}

async fn standing(asker: &Asker, run: &RunId) -> Result<Called, Fault> {
    let waited = runs::wait_for(&asker.app.service, &asker.caller, run, WaitsFor::Suspension, Duration::ZERO).await?;
    Ok(Called::Done(stands(asker, waited).await?.result()))
}

/// The run with its plan.
pub(super) async fn stands(asker: &Asker, waited: Waited) -> Result<Standing, Fault> {
    let items = plan::items(&asker.app.service, &asker.caller, &waited.run.thread_id).await?;
    Ok(Standing::of(waited, items, asker.caller.may(Scope::Approve)))
}
