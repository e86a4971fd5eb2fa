//! A call in several rounds: what the client carries from one to the next (`requestState`), and the answers that it brings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::Asker;
use super::forms::{self, Said};
use super::refusal::{Error, Refusal};
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::service::carried::{open, seal};
use crate::service::runs::{self, Waited};

/// What the state is sealed for.
const USE: &str = "mcp ask";

/// Which run is waited for, what was shown, and what is not asked again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) run: RunId,
    /// The questions that were asked, each as it was put.
    asked: Vec<AskedQuestion>,
    /// Nobody wanted to answer these here.
    left: Vec<SuspensionId>,
}

impl Round {
    /// The first one.
    pub(super) fn first(run: RunId) -> Self {
        Self { run, asked: Vec::new(), left: Vec::new() }
    }

    /// The round that the call goes on with; `None`: it is a new one.
    pub(super) fn of(asker: &Asker, params: &Map<String, Value>) -> Result<Option<Self>, Refusal> {
        let Some(sealed) = params.get("requestState") else { return Ok(None) };
        let opened = sealed.as_str().and_then(|text| open(&asker.app.service, &asker.caller, USE, text));
        let round = opened.and_then(|text| serde_json::from_str(&text).ok());
        let unknown = || Refusal::new(Error::InvalidParams, "`requestState` is not what this server gave to this key.");
        round.map(Some).ok_or_else(unknown)
    }

    /// Hands over what people answered, each to its question as it was shown. What is answered already stays as it is.
    pub(super) async fn take(&mut self, asker: &Asker, thread: &ThreadId, responses: &Value) -> Result<(), Fault> {
        for asked in std::mem::take(&mut self.asked) {
            let Some(response) = responses.get(asked.suspension_id.as_str()) else { continue };
            match forms::said(&asked, response) {
                Said::Unclear => {}
                Said::Nothing => self.left.push(asked.suspension_id),
                Said::Answer(answer) => {
                    match runs::resume(&asker.app.service, &asker.caller, thread, *answer, None).await {
                        Ok(_) => {}
                        Err(fault) if fault.code.status() == 403 => self.left.push(asked.suspension_id),
                        // Answered or withdrawn meanwhile; or no answer to this question, which is put again.
                        Err(fault) if is_past(fault.code) || fault.code == Code::Invalid => {}
                        Err(fault) => return Err(fault),
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether some questions are open, and nobody wants to answer any of them here.
    pub(super) fn has_left(&self, waited: &Waited) -> bool {
        let is_left = |question: &Value| self.left.iter().any(|left| question["suspensionId"] == left.as_str());
        !waited.suspensions.is_empty() && waited.suspensions.iter().all(is_left)
    }

    /// The result that asks what is open; `None`: nothing can be asked here.
    pub(super) fn ask(mut self, asker: &Asker, waited: &Waited) -> Option<Value> {
        let mut requests = Map::new();
        for question in &waited.suspensions {
            let Ok(asked) = serde_json::from_value::<AskedQuestion>(question.clone()) else { continue };
            if self.left.contains(&asked.suspension_id) {
                continue;
            }
            if let Some(form) = forms::form(&asked) {
                requests.insert(asked.suspension_id.to_string(), form);
                self.asked.push(carried(asked));
            }
        }
        if requests.is_empty() {
            return None;
        }
        let state = serde_json::to_string(&self).expect("ids and questions are plain data");
        match seal(&asker.app.service, &asker.caller, USE, &state) {
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

/// What of a question is needed to read its answer.
fn carried(asked: AskedQuestion) -> AskedQuestion {
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

/// Whether a host may put this server's questions to a person: the client can, and the key may approve.
pub(super) fn may_ask(asker: &Asker) -> bool {
    asker.client.has_forms && asker.caller.may(Scope::Approve)
}

pub(super) fn is_past(code: Code) -> bool {
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
