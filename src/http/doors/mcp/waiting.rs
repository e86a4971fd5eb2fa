//! The response to a call that waits: a stream of events. Its first byte is sent at once, and its last event is the
//! result.
//!
//! The stream ends when the run ends or asks something, when the time is up, or when the server stops. Then the result
//! reports the run's state, and the run goes on. A client of version 2026-07-28 cancels its request by closing the
//! stream.

use std::pin::Pin;

use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::call::{McpRequest, RunWait, report, tool_error};
use super::envelope;
use super::error::McpError;
use super::progress::ProgressStream;
use super::run_report;
use crate::domain::fault::Fault;
use crate::domain::ids::RunId;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::sse::{data, revoked_fault};
use crate::http::events::sse::{self, ClosingEvents};
use crate::http::listeners::cancel_until_done;
use crate::service::runs::{Waited, WaitsFor};

type PendingResponse = Pin<Box<dyn Future<Output = Value> + Send>>;

pub(super) async fn stream(ctx: &McpRequest, id: Value, wait: RunWait) -> Response {
    let (run, thread) = (wait.run.clone(), wait.thread.clone());
    let stopping = ctx.client.result(run_report::stopping_result(&run, &thread, wait.status));
    let closing_events = ClosingEvents {
        stopping: data(&envelope::answer(&id, &stopping)),
        revoked: data(&McpError::from(revoked_fault()).body(&id)),
    };
    let cancel_on_drop = CancelOnDrop { ctx: ctx.clone(), run: wait.cancels_on_close.then(|| wait.run.clone()) };
    let progress = match &ctx.client.progress_token {
        Some(token) => ProgressStream::begin(ctx, token, &run, &thread).await,
        None => None,
    };
    let call = CallMessages { answer: Some(answer(ctx.clone(), id, wait, cancel_on_drop)), progress };
    let hello = stream::once(async { Bytes::from_static(b": it is being worked on\n") });
    let messages = stream::unfold(call, |mut call| async move { Some((call.next().await?, call)) });
    let events = Box::pin(hello.chain(messages.map(|message| data(&message))));
    let mut response = sse::event_response(&ctx.app, ctx.pass.clone(), events, closing_events);
    set_run(response.headers_mut(), &thread, &run);
    response
}

/// The messages of a call: progress notifications, then the response.
struct CallMessages {
    /// `None` once it was sent.
    answer: Option<PendingResponse>,
    progress: Option<ProgressStream>,
}

impl CallMessages {
    async fn next(&mut self) -> Option<Value> {
        let answer = self.answer.as_mut()?;
        let notification = async {
            match &mut self.progress {
                Some(progress) => progress.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            notification = notification => Some(notification),
            message = answer => {
                self.answer = None;
                Some(message)
            }
        }
    }
}

/// The message with the result.
fn answer(ctx: McpRequest, id: Value, wait: RunWait, cancel_on_drop: CancelOnDrop) -> PendingResponse {
    Box::pin(async move {
        let outcome = result(&ctx, wait).await;
        cancel_on_drop.disarm();
        match outcome.or_else(tool_error) {
            Ok(result) => envelope::answer(&id, &ctx.client.result(result)),
            Err(error) => error.body(&id),
        }
    })
}

async fn result(ctx: &McpRequest, mut wait: RunWait) -> Result<Value, Fault> {
    let waited = waited(ctx, &wait).await?;
    if let Some(asks) = wait.round.take().and_then(|round| round.ask(ctx, &waited)) {
        return Ok(asks);
    }
    Ok(report(ctx, waited).await?.result())
}

/// A host that can ask people gets a question at once, even while the run goes on. Any other host waits until the run
/// cannot go on without an answer.
async fn waited(ctx: &McpRequest, wait: &RunWait) -> Result<Waited, Fault> {
    let until = Instant::now() + wait.at_most;
    let what = if wait.round.is_some() { WaitsFor::Question } else { WaitsFor::CallQuestion };
    let waited = ctx.app.wait_run(&ctx.caller, &wait.run, what, wait.at_most).await?;
    match &wait.round {
        Some(round) if round.are_all_declined(&waited) => {
            let rest = until.saturating_duration_since(Instant::now());
            ctx.app.wait_run(&ctx.caller, &wait.run, WaitsFor::Suspension, rest).await
        }
        Some(_) | None => Ok(waited),
    }
}

/// Cancels the run when it is dropped with one: nobody waits for that run any more.
struct CancelOnDrop {
    ctx: McpRequest,
    run: Option<RunId>,
}

impl CancelOnDrop {
    /// The client has waited for its response, so the run is not cancelled.
    fn disarm(mut self) {
        self.run = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let McpRequest { app, caller, pass, .. } = self.ctx.clone();
        // A server that stops closes every stream. The run goes on.
        if app.stopping.is_cancelled() {
            return;
        }
        tokio::spawn(async move {
            // The server closed the stream because the key or session has ended. What was requested while it was valid
            // goes on.
            if app.keys.ended(&pass).await.is_some() {
                return;
            }
            cancel_until_done(&app, &caller, &run).await;
        });
    }
}
