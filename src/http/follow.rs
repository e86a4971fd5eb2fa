//! The response to `process` and `resume`: the receipt, the result if it comes in time, or the run's events.
//!
//! A reply is wrapped step by step: the service gives [`Answered`](crate::service::once::Answered), which is fresh or
//! stored; [`reply_value`](super::idempotency::reply_value) adds the status, as a [`ReplyValue`]; [`follow`] chooses one
//! of the three forms.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::app_state::AppState;
use super::events::{run_events, sse};
use super::idempotency::ReplyValue;
use super::problem::HttpResult;
use super::reply_preferences::ReplyPreferences;
use crate::domain::caller::Caller;
use crate::domain::run::{AgentFinalResponse, RunResource, RunStatus};
use crate::service::feed::EarlySubscription;
use crate::service::runs::{Receipt, Waited, WaitsFor};

/// The response in the requested form. `early` is a subscription from before the request was accepted; it is not used
/// for a repeated request. `until` says what ends a wait.
pub(crate) async fn follow(
    app: &AppState,
    caller: &Caller,
    preferences: &ReplyPreferences,
    early: Option<EarlySubscription>,
    reply: ReplyValue<Receipt>,
    until: WaitsFor,
) -> HttpResult<Response> {
    if preferences.wants_events {
        let early = early.filter(|_| !reply.is_replay);
        let events = run_events(app, caller, &reply.value, early).await?;
        return Ok((reply.headers(), sse::response(app, preferences.pass.clone(), events)).into_response());
    }
    match preferences.wait {
        Some(wait) => wait_for(app, caller, preferences, until, wait, reply).await,
        None => Ok(receipt(preferences, reply)),
    }
}

/// The receipt, with URLs in place of paths.
pub(crate) fn receipt(preferences: &ReplyPreferences, reply: ReplyValue<Receipt>) -> Response {
    ReplyValue { value: absolute(&preferences.base, reply.value), ..reply }.into_response()
}

pub(crate) fn absolute(base: &str, receipt: Receipt) -> Receipt {
    Receipt {
        events_url: format!("{base}{}", receipt.events_url),
        run_url: format!("{base}{}", receipt.run_url),
        ..receipt
    }
}

async fn wait_for(
    app: &AppState,
    caller: &Caller,
    preferences: &ReplyPreferences,
    until: WaitsFor,
    wait: Duration,
    mut reply: ReplyValue<Receipt>,
) -> HttpResult<Response> {
    let waited = app.wait_run(caller, &reply.value.run_id, until, wait);
    let Waited { run, suspensions } = app.while_admitted(&preferences.pass, waited).await??;
    let mut response = if run.status.is_terminal() {
        (reply.headers(), Json(Finished::from(run))).into_response()
    } else {
        reply.value.status = run.status;
        reply.value.suspensions = suspensions;
        reply.status = StatusCode::ACCEPTED;
        receipt(preferences, reply)
    };
    let applied = HeaderValue::from_str(&format!("wait={}", wait.as_secs())).expect("digits are visible ASCII");
    response.headers_mut().insert("preference-applied", applied);
    Ok(response)
}

/// What came of a run: `AgentFinalResponse`, or the run itself where there is none, as of a cancelled one.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum Finished {
    Result(Box<AgentFinalResponse>),
    Run(Box<RunResource>),
}

impl From<RunResource> for Finished {
    fn from(run: RunResource) -> Self {
        match run {
            RunResource { status: RunStatus::Completed | RunStatus::Failed, result: Some(result), .. } => {
                Finished::Result(Box::new(result))
            }
            without => Finished::Run(Box::new(without)),
        }
    }
}
