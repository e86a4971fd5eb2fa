//! Arguments against a tool's schema. Schemas are compiled once; `$ref` never leaves the document.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::tool::ToolError;

/// How many mistakes of one value are told.
const TOLD: usize = 8;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema(Validator);

impl Schema {
    /// The message says why it is no schema.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        // The linear-time engine: patterns come from models and servers, too.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        options.build(schema).map(Self).map_err(|error| error.masked().to_string())
    }

    /// What is wrong, each with its JSON Pointer; values are not repeated. Empty = nothing.
    pub fn mistakes(&self, value: &Value) -> Vec<Pointed> {
        let told = |error: jsonschema::ValidationError<'_>| Pointed {
            pointer: error.instance_path().to_string(),
            detail: error.masked().to_string(),
        };
        self.0.iter_errors(value).take(TOLD).map(told).collect()
    }

    /// For the model: the first mistake's pointer, and all of them in the message.
    pub fn check_call(&self, arguments: &Value) -> Result<(), ToolError> {
        self.check("invalid_arguments", "The arguments do not fit the schema.", arguments)
    }

    /// The same for what a tool brought back.
    pub fn check_output(&self, output: &Value) -> Result<(), ToolError> {
        self.check("invalid_output", "The output does not fit the schema that the tool declares.", output)
    }

    fn check(&self, code: &str, what: &str, value: &Value) -> Result<(), ToolError> {
        let mistakes = self.mistakes(value);
        let Some(first) = mistakes.first() else {
            return Ok(());
        };
        let told: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", place(&m.pointer), m.detail)).collect();
        Err(ToolError {
            code: code.to_owned(),
            message: format!("{what} {}", told.join("; ")),
            pointer: Some(first.pointer.clone()),
        })
    }

    /// For a person who sent `value` as the member at `pointer` of a request.
    pub fn check_member(&self, pointer: &str, value: &Value) -> Result<(), Fault> {
        let mistakes = self.mistakes(value);
        if mistakes.is_empty() {
            return Ok(());
        }
        let fault =
            Fault::new(Code::Invalid, format!("`{}` does not fit its schema.", pointer.trim_start_matches('/')));
        Err(mistakes.into_iter().fold(fault, |fault, m| fault.at(format!("{pointer}{}", m.pointer), m.detail)))
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "(the whole)" } else { pointer }
}
