//! What is declared of a tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::hitl::RiskLevel;
use crate::domain::words;

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// What a model calls it by: unique among the tools of a thread.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of the arguments; calls that do not fit it never start.
    pub input_schema: Value,
    /// JSON Schema of the output; a result that does not fit it becomes an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The effect that a call has unless its arguments say otherwise.
    pub class: ToolClass,
    /// Declares that repeating a call under the same key has its effect only once, so it may be repeated after a crash.
    pub idempotent: bool,
    /// How long one execution may take.
    pub timeout_ms: i64,
    /// Shown to the person who is asked about a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
}

impl ToolSpec {
    /// A call may take [`DEFAULT_TIMEOUT_MS`](Self::DEFAULT_TIMEOUT_MS) and is repeated after a crash only if it
    /// [reads](ToolClass::Read); its output is not checked.
    pub fn new(name: impl Into<String>, description: impl Into<String>, class: ToolClass, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            class,
            idempotent: class == ToolClass::Read,
            timeout_ms: Self::DEFAULT_TIMEOUT_MS,
            risk_level: None,
        }
    }

    /// How long one execution may take if the tool says nothing else.
    pub const DEFAULT_TIMEOUT_MS: i64 = 30_000;

    /// Declares that repeating a call under the same key has its effect only once.
    pub fn with_idempotency(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// A result that does not fit this JSON Schema becomes an error.
    pub fn with_output_schema(self, schema: Value) -> Self {
        Self { output_schema: Some(schema), ..self }
    }

    /// One execution may take so long.
    pub fn with_timeout_ms(self, timeout_ms: i64) -> Self {
        Self { timeout_ms, ..self }
    }

    /// Shown to the person who is asked about a call.
    pub fn with_risk_level(self, risk_level: RiskLevel) -> Self {
        Self { risk_level: Some(risk_level), ..self }
    }
}

words! {
    /// The effect that a call may have: what may be done about it without a person depends on this.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ToolClass {
        /// It changes nothing, so it may be repeated and run beside others.
        Read = "read",
        /// It changes something that belongs to this agent.
        Write = "write",
        /// Its effect leaves this server.
        External = "external",
        /// Its effect cannot be undone.
        Irreversible = "irreversible",
    }
}

impl ToolClass {
    /// Whether its effect leaves this server or cannot be undone.
    pub fn reaches_out(self) -> bool {
        match self {
            ToolClass::External | ToolClass::Irreversible => true,
            ToolClass::Read | ToolClass::Write => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_repeated_after_a_crash_only_if_it_reads_or_declares_that_it_may_be() {
        let new = |class| ToolSpec::new("send", "Sends.", class, Value::Null);
        let repeated: Vec<_> = ToolClass::ALL.iter().filter(|class| new(**class).idempotent).collect();
        assert_eq!(repeated, [&ToolClass::Read]);
        assert!(new(ToolClass::External).with_idempotency().idempotent);
    }
}
