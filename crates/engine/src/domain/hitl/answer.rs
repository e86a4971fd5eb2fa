//! What people answer, and how a question ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SuspensionKind;
use crate::domain::ids::SuspensionId;
use crate::domain::{Millis, words};

/// How a suspension ended: who, when, what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// What was decided, or why nobody did.
    pub decision: Decision,
    /// The name of the key or person, or of the part of the server that ended it.
    pub decided_by: String,
    /// In Unix milliseconds.
    pub decided_at: Millis,
    /// The words of the person; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of the tool and the arguments as they were approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

words! {
    /// How a question ended.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum Decision {
        /// The call or the plan may run as it was shown.
        Approved = "approved",
        /// It may run with other arguments or another list.
        Modified = "modified",
        /// It may not.
        Rejected = "rejected",
        /// The value was given.
        Answered = "answered",
        /// The call in doubt is made again.
        Retry = "retry",
        /// The call in doubt had its effect: the model is given its result.
        Done = "done",
        /// The call in doubt is not made again, and the model goes on without a result.
        Skip = "skip",
        /// The item of the call in doubt fails with `aborted`.
        Abort = "abort",
        /// The pause is over.
        Resumed = "resumed",
        /// Nobody answered in time.
        Expired = "expired",
        /// The question was withdrawn.
        Cancelled = "cancelled",
    }
}

/// What is done about a call in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InDoubtAction {
    /// It is made again, with the same idempotency key.
    Retry,
    /// It had its effect: `value` is its result, or `{"done": true}`.
    Done,
    /// It is not made again, and the model goes on without a result.
    Skip,
    /// Its item fails with `aborted`.
    Abort,
}

/// The body of `POST /threads/{id}/resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", schema(as = ResumeRequest))]
pub struct Answer {
    /// The question that this answers.
    pub suspension_id: SuspensionId,
    /// The suspension's `digest` as the person saw it; if given, it must still be the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Yes or no, for kinds that ask for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// For kinds that ask for a value: it must fit the question's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What is approved instead: the arguments of a call, or `{"todoList": [...]}`, the whole list, for a plan review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub modified_args: Option<Value>,
    /// Told to the model with a no, and kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For a call in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<InDoubtAction>,
}

impl Answer {
    /// Whether this answer to a question of this kind lets a call run, which four eyes forbid to those who shaped it.
    pub fn lets_run(&self, kind: SuspensionKind) -> bool {
        kind.may_let_run() && (self.approved == Some(true) || self.action == Some(InDoubtAction::Retry))
    }
}
