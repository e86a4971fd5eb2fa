//! What a server asks a person in the middle of a call: the person of that call, and nobody else.
//!
//! Newer servers answer a call with what they want to know. Older ones send a request that names no call; it belongs to
//! the only one that runs. If several run, or one that was given up may still be asking for somebody else, whose it is
//! cannot be told, and it is declined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests, InputResponses};
use tokio::time::Instant;

use crate::domain::hitl::{FeedbackSchema, InputType, Question, Reply};
use crate::domain::ids::TenantPk;
use crate::domain::tool::ToolError;
use crate::tool::{People, ToolContext};

/// How long a server may go on with a call that was given up, at least.
const GIVEN_UP: Duration = Duration::from_secs(600);

/// The calls that run on one connection.
pub(super) struct Questions {
    calls: Mutex<Calls>,
    /// How long a call that was given up may still ask.
    given_up: Duration,
}

#[derive(Default)]
struct Calls {
    next: u64,
    running: BTreeMap<u64, (TenantPk, Arc<dyn People>)>,
    /// Whose calls were given up, and until when the server may not have noticed.
    given_up: BTreeMap<TenantPk, Instant>,
}

/// A call that runs, until it is dropped.
pub(super) struct Running<'a> {
    questions: &'a Questions,
    number: u64,
    has_ended: bool,
}

impl Questions {
    /// `call`: as long as one may take.
    pub(super) fn new(call: Duration) -> Self {
        Self { calls: Mutex::default(), given_up: call.max(GIVEN_UP) }
    }

    pub(super) fn begin(&self, context: &ToolContext) -> Running<'_> {
        let mut calls = self.held();
        calls.next += 1;
        let number = calls.next;
        calls.running.insert(number, (context.tenant, context.people.clone()));
        Running { questions: self, number, has_ended: false }
    }

    /// Asks the person of the only call that it can belong to.
    pub(super) async fn ask(&self, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        match self.people() {
            Some(people) => ask(&*people, asked).await,
            None => {
                tracing::info!("a question of an MCP server is declined: it is not clear which call asks");
                Ok(ElicitResult::new(ElicitationAction::Decline))
            }
        }
    }

    fn people(&self) -> Option<Arc<dyn People>> {
        let mut calls = self.held();
        let now = Instant::now();
        calls.given_up.retain(|_, until| *until > now);
        let mut running = calls.running.values();
        let (tenant, people) = running.next()?;
        let is_alone = running.next().is_none() && calls.given_up.keys().all(|other| other == tenant);
        is_alone.then(|| people.clone())
    }

    fn held(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock()
    }
}

impl Running<'_> {
    /// The server has answered: it asks nothing any more.
    pub(super) fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut calls = self.questions.held();
        if let Some((tenant, _)) = calls.running.remove(&self.number)
            && !self.has_ended
        {
            calls.given_up.insert(tenant, Instant::now() + self.questions.given_up);
        }
    }
}

/// What a server wants to know before it goes on with a call. Only people are asked for it.
pub(super) async fn answers(people: &dyn People, wanted: InputRequests) -> Result<InputResponses, ToolError> {
    let refused = |message: String| ToolError::new("failed", message);
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

/// Only forms: nobody is sent to an address that a server names.
async fn ask(people: &dyn People, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = asked else {
        return Ok(ElicitResult::new(ElicitationAction::Decline));
    };
    let unusable = |why: String| ErrorData::invalid_params(why, None);
    let schema = serde_json::to_value(requested_schema).map_err(|error| unusable(error.to_string()))?;
    let form =
        FeedbackSchema { custom_schema: Some(schema), ..FeedbackSchema::new(InputType::Custom, message.clone()) };
    Ok(match people.ask(Question { message, form }).await.map_err(|error| unusable(error.message))? {
        Reply::Accepted { value } => ElicitResult::new(ElicitationAction::Accept).with_content(value),
        Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    })
}
