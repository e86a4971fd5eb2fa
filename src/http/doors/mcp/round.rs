//! A call in several rounds: the state that the client returns with the next round (`requestState`), and the answers
//! that come with it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::McpRequest;
use super::error::{McpError, RpcErrorKind};
use super::forms::{self, FormReply};
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::service::client_sealed::{open, seal};
use crate::service::runs::{self, Waited};

/// The purpose for which the state is sealed.
const SEAL_PURPOSE: &str = "mcp ask";

/// The run that is waited for, the questions that were asked, and those that are not asked again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) run: RunId,
    /// The questions of the last round, as they were shown.
    asked: Vec<AskedQuestion>,
    /// The questions that the person declined to answer here.
    #[serde(rename = "left")]
    declined: Vec<SuspensionId>,
}

impl Round {
    /// The state of a call's first round.
    pub(super) fn first(run: RunId) -> Self {
        Self { run, asked: Vec::new(), declined: Vec::new() }
    }

    /// The state that the request returns. `None` for a new call.
    pub(super) fn of(ctx: &McpRequest, params: &Map<String, Value>) -> Result<Option<Self>, McpError> {
        let Some(sealed) = params.get("requestState") else { return Ok(None) };
        let opened = sealed.as_str().and_then(|text| open(&ctx.app.service, &ctx.caller, SEAL_PURPOSE, text));
        let round = opened.and_then(|text| serde_json::from_str(&text).ok());
        let unknown =
            || McpError::new(RpcErrorKind::InvalidParams, "`requestState` is not what this server gave to this key.");
        round.map(Some).ok_or_else(unknown)
    }

    /// Submits people's answers, each to its question as it was shown. Questions that were answered elsewhere keep
    /// their answers.
    pub(super) async fn submit_answers(
        &mut self,
        ctx: &McpRequest,
        thread: &ThreadId,
        responses: &Value,
    ) -> Result<(), Fault> {
        for asked in std::mem::take(&mut self.asked) {
            let Some(response) = responses.get(asked.suspension_id.as_str()) else { continue };
            match forms::parse_reply(&asked, response) {
                FormReply::Invalid => {}
                FormReply::Declined => self.declined.push(asked.suspension_id),
                FormReply::Answer(answer) => {
                    match runs::resume(&ctx.app.service, &ctx.caller, thread, *answer, None).await {
                        Ok(_) => {}
                        Err(fault) if fault.code.status() == 403 => self.declined.push(asked.suspension_id),
                        // The question was answered or withdrawn meanwhile, or the answer does not fit and the question
                        // is asked again.
                        Err(fault) if is_closed(fault.code) || fault.code == Code::Invalid => {}
                        Err(fault) => return Err(fault),
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there are open questions, and the person declined all of them here.
    pub(super) fn are_all_declined(&self, waited: &Waited) -> bool {
        let is_declined =
            |question: &Value| self.declined.iter().any(|declined| question["suspensionId"] == declined.as_str());
        !waited.suspensions.is_empty() && waited.suspensions.iter().all(is_declined)
    }

    /// The result that asks the open questions. `None` if none can be asked here.
    pub(super) fn ask(mut self, ctx: &McpRequest, waited: &Waited) -> Option<Value> {
        let mut requests = Map::new();
        for question in &waited.suspensions {
            let Ok(asked) = serde_json::from_value::<AskedQuestion>(question.clone()) else { continue };
            if self.declined.contains(&asked.suspension_id) {
                continue;
            }
            if let Some(form) = forms::form(&asked) {
                requests.insert(asked.suspension_id.to_string(), form);
                self.asked.push(without_details(asked));
            }
        }
        if requests.is_empty() {
            return None;
        }
        let state = serde_json::to_string(&self).expect("ids and questions are plain data");
        match seal(&ctx.app.service, &ctx.caller, SEAL_PURPOSE, &state) {
            Ok(state) => {
                Some(json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state }))
            }
            Err(error) => {
                tracing::debug!(%error, "a host is not asked, as no state can be sealed for it");
                None
            }
        }
    }
}

/// The members of a question that are needed to read its answer.
fn without_details(asked: AskedQuestion) -> AskedQuestion {
    AskedQuestion {
        message: String::new(),
        tool_input: None,
        input_schema: None,
        plan: None,
        policy: None,
        other: Map::new(),
        ..asked
    }
}

/// Whether a host may ask people this server's questions: its client can show forms, and its key may approve.
pub(super) fn may_ask_people(ctx: &McpRequest) -> bool {
    ctx.client.has_forms && ctx.caller.may(Scope::Approve)
}

pub(super) fn is_closed(code: Code) -> bool {
    matches!(
        code,
        Code::NotFound
            | Code::AlreadyResolved
            | Code::ApprovalMismatch
            | Code::Expired
            | Code::RunCancelled
            | Code::RunFinished
    )
}
