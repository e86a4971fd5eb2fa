//! A tool that is ready to be called: its name was checked and its schemas are compiled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use super::Tool;
use super::schema::{Schema, describe};
use crate::domain::fault::{Code, Fault};
use crate::domain::tool::ToolSpec;

/// A tool with its compiled schemas.
pub(super) struct ToolEntry {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) spec: Arc<ToolSpec>,
    pub(super) arguments: Schema,
    pub(super) output: Option<Schema>,
}

impl ToolEntry {
    /// Rejects a name that no provider accepts and a schema that cannot be compiled.
    pub(super) fn new(tool: Arc<dyn Tool>) -> Result<Self, Fault> {
        let spec = tool.spec();
        let refuse = |why: &str| Fault::new(Code::Invalid, format!("The tool `{}` {why}.", spec.name));
        if !is_name(&spec.name) {
            return Err(refuse("needs a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -"));
        }
        let arguments = Schema::compile(&spec.input_schema)
            .map_err(|error| refuse(&format!("has an input schema that cannot be used: {}", describe(&error))))?;
        let output = spec.output_schema.as_ref().map(Schema::compile).transpose();
        let output = output
            .map_err(|error| refuse(&format!("has an output schema that cannot be used: {}", describe(&error))))?;
        metrics::counter!("pes_tool_schemas_compiled_total").increment(1);
        Ok(Self { tool, spec, arguments, output })
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether the tool wants approval independently of its arguments.
    pub(super) fn always_wants_approval(&self, nothing: &Value) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.tool.approval(nothing))).is_ok_and(|wish| wish.is_some())
    }
}

pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
