//! Why a call failed.

use serde::{Deserialize, Serialize};

use super::CallCode;
use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::policy::Ruling;

/// Why a tool call failed, as the model reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolError {
    /// A code of docs/ERRORS.md, or one of the tool's own.
    pub code: String,
    /// A sentence for the model.
    pub message: String,
    /// A JSON Pointer to the argument that is wrong; absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Another attempt may succeed, after this delay at the earliest; it is made if the call is declared idempotent, if it
    /// was lost and only reads, or if the code says that nothing was sent (`unavailable`). This is advice and not part of
    /// the result, so it is not stored.
    #[serde(skip)]
    pub retry_after_ms: Option<Millis>,
    /// No attempt of the call had an effect, whatever became of it. This is not stored, either.
    #[serde(skip)]
    pub has_no_effect: bool,
    /// The decision of the policy that denied the call just before it was made. It is stored with the call, in place of the
    /// earlier one.
    #[serde(skip)]
    pub ruling: Option<Box<Ruling>>,
}

impl ToolError {
    /// A code of the server's own is a [`CallCode`]; a tool may use any other.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            pointer: None,
            retry_after_ms: None,
            has_no_effect: false,
            ruling: None,
        }
    }

    /// It is about the argument at this JSON Pointer.
    pub fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// Another attempt may succeed, after this delay at the earliest.
    pub fn retry_after(self, ms: Millis) -> Self {
        Self { retry_after_ms: Some(ms), ..self }
    }

    /// No attempt of the call had an effect.
    pub fn without_effect(self) -> Self {
        Self { has_no_effect: true, ..self }
    }

    /// It is not known whether the call had its effect: it is repeated under the same key if it only reads, or its tool
    /// declared that this is safe; else a person decides.
    pub fn lost(message: String) -> Self {
        Self::new(CallCode::Unknown, message).retry_after(0)
    }

    /// Whether the call may have had its effect although it failed.
    pub fn is_lost(&self) -> bool {
        self.has(CallCode::Unknown)
    }

    /// Whether this is its code.
    pub fn has(&self, code: CallCode) -> bool {
        self.code == code.as_str()
    }

    /// Whether a person or a policy refused the call.
    pub fn is_refusal(&self) -> bool {
        self.refusal().is_some()
    }

    /// The code of a call that a person or a policy refused.
    pub fn refusal(&self) -> Option<CallCode> {
        CallCode::parse(&self.code).filter(|code| code.is_refusal())
    }

    /// Whether the call may have had its effect, if it was started; also one that ran and whose change of the
    /// application state was too large.
    pub fn is_open_ended(&self) -> bool {
        self.code == Code::StateTooLarge.as_str() || CallCode::parse(&self.code).is_some_and(CallCode::is_open_ended)
    }
}
