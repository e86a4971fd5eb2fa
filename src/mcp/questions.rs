//! Questions that a server asks during a call. They go to the person of that call and to nobody else.
//!
//! Newer servers reply to a call with their questions. Older servers send a request that names no call; it can only
//! belong to the single call that is running. If several calls are running, or if an abandoned call of another tenant
//! may still be asking, the owner is unknown and the question is declined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests, InputResponses};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::hitl::{FeedbackSchema, InputType, Question, Reply};
use crate::domain::ids::TenantPk;
use crate::domain::tool::{CallCode, ToolError};
use crate::tool::{People, ToolContext};

/// The minimum time for which a server may continue a call that was abandoned.
const MIN_ABANDONED_TIME: Duration = Duration::from_secs(600);

/// The calls that run on one connection.
pub(super) struct Questions {
    calls: Mutex<Calls>,
    /// How long an abandoned call may still ask questions.
    abandoned_for: Duration,
}

#[derive(Default)]
struct Calls {
    next: u64,
    running: BTreeMap<u64, (TenantPk, Arc<dyn People>)>,
    /// The tenants whose calls were abandoned, and until when the server may continue those.
    abandoned: BTreeMap<TenantPk, Instant>,
}

/// A running call. Dropping it without [`ended`](Self::ended) marks the call as abandoned.
pub(super) struct CallGuard<'a> {
    questions: &'a Questions,
    number: u64,
    has_ended: bool,
}

impl Questions {
    /// `call`: the maximum duration of a call.
    pub(super) fn new(call: Duration) -> Self {
        Self { calls: Mutex::default(), abandoned_for: call.max(MIN_ABANDONED_TIME) }
    }

    pub(super) fn begin(&self, context: &ToolContext) -> CallGuard<'_> {
        let mut calls = self.lock();
        calls.next += 1;
        let number = calls.next;
        calls.running.insert(number, (context.tenant, context.people.clone()));
        CallGuard { questions: self, number, has_ended: false }
    }

    /// Asks the person of the only call that the question can belong to, until the server gives its request up.
    pub(super) async fn ask(
        &self,
        asked: ElicitRequestParams,
        given_up: &CancellationToken,
    ) -> Result<ElicitResult, ErrorData> {
        match self.only_caller() {
            Some(people) => unless_given_up(given_up, &*people, ask(&*people, asked)).await,
            None => Ok(declined()),
        }
    }

    /// The same, for a question whose form the library cannot read: here a form may have any schema.
    pub(super) async fn ask_in_other_form(
        &self,
        params: &Value,
        given_up: &CancellationToken,
    ) -> Result<ElicitResult, ErrorData> {
        let missing = |member: &str| ErrorData::invalid_params(format!("`{member}` is missing"), None);
        let message = params["message"].as_str().ok_or_else(|| missing("message"))?.to_owned();
        let schema = params.get("requestedSchema").filter(|schema| schema.is_object());
        let schema = schema.ok_or_else(|| missing("requestedSchema"))?.clone();
        match self.only_caller() {
            Some(people) => unless_given_up(given_up, &*people, ask_with(&*people, message, schema)).await,
            None => Ok(declined()),
        }
    }

    fn only_caller(&self) -> Option<Arc<dyn People>> {
        let mut calls = self.lock();
        let now = Instant::now();
        calls.abandoned.retain(|_, until| *until > now);
        let mut running = calls.running.values();
        let (tenant, people) = running.next()?;
        let is_only_caller = running.next().is_none() && calls.abandoned.keys().all(|other| other == tenant);
        is_only_caller.then(|| people.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }
}

impl CallGuard<'_> {
    /// The server has answered the call, so it asks no more questions.
    pub(super) fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut calls = self.questions.lock();
        if let Some((tenant, _)) = calls.running.remove(&self.number)
            && !self.has_ended
        {
            calls.abandoned.insert(tenant, Instant::now() + self.questions.abandoned_for);
        }
    }
}

/// The person's answer. A server that gives its question up, as some do after a minute, would not read it: the question is
/// withdrawn.
async fn unless_given_up(
    given_up: &CancellationToken,
    people: &dyn People,
    asking: impl Future<Output = Result<ElicitResult, ErrorData>>,
) -> Result<ElicitResult, ErrorData> {
    match given_up.run_until_cancelled(asking).await {
        Some(answer) => answer,
        None => {
            people.withdraw().await;
            Ok(ElicitResult::new(ElicitationAction::Cancel))
        }
    }
}

fn declined() -> ElicitResult {
    tracing::info!("a question of an MCP server is declined: it is not clear which call asks");
    ElicitResult::new(ElicitationAction::Decline)
}

/// Answers what a server wants to know before it continues a call. Only questions to people are answered.
pub(super) async fn answer_all(people: &dyn People, wanted: InputRequests) -> Result<InputResponses, ToolError> {
    let refused = |message: String| ToolError::new(CallCode::Failed, message);
    let mut answers = InputResponses::new();
    for (id, request) in wanted {
        let InputRequest::Elicitation(asked) = request else {
            return Err(refused("The server wants more than a person's answer in the middle of the call.".to_owned()));
        };
        let answer = ask(people, asked.params).await.map_err(|error| refused(error.message.into_owned()))?;
        let answer = serde_json::to_value(answer).map_err(|error| refused(error.to_string()))?;
        answers.insert(id, answer);
    }
    Ok(answers)
}

/// Only forms are supported: people are not sent to a URL that a server chose.
async fn ask(people: &dyn People, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = asked else {
        return Ok(ElicitResult::new(ElicitationAction::Decline));
    };
    let schema = serde_json::to_value(requested_schema);
    let schema = schema.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    ask_with(people, message, schema).await
}

async fn ask_with(people: &dyn People, message: String, schema: Value) -> Result<ElicitResult, ErrorData> {
    let unusable = |error: ToolError| ErrorData::invalid_params(error.message, None);
    let form =
        FeedbackSchema { custom_schema: Some(schema), ..FeedbackSchema::new(InputType::Custom, message.clone()) };
    Ok(match people.ask(Question { message, form }).await.map_err(unusable)? {
        Reply::Accepted { value } => ElicitResult::new(ElicitationAction::Accept).with_content(value),
        Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    })
}
