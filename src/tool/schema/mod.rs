//! JSON Schemas from outside: arguments and outputs of tools, forms for people. They are compiled once where possible;
//! references never leave the document.
//!
//! Callers, models and servers choose both the schema and the value, and values are checked within decisions. So a
//! schema is accepted only if the work grows linearly with the value: `cost` follows every reference and computes how
//! many subschemas can apply to one value at most. Keywords with more than linear cost (`unevaluated*`, `$dynamicRef`,
//! `$recursiveRef`) are rejected, and so is a schema that applies itself to the same value. Anything that would give a
//! reference another target than in that walk is rejected, too: an anchor that occurs twice, a URI below the root, and,
//! where there are references, another draft below the root. A value that is too large for its schema is an error.

mod cost;
mod node;
mod text;
mod unique;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::tool::{CallCode, ToolError};

pub use cost::{Cost, MAX_SCHEMAS, values};

/// How many errors of one value are listed.
const MAX_ERRORS: usize = 8;
/// Maximum number of steps for one value; `benches/bounds.rs` measures the worst cases.
pub const MAX_WORK: u64 = 4_000_000;
/// Beyond this many steps only the first fact is reported, that the value is invalid: all errors are computed before
/// the first is listed, and each costs memory.
const MAX_LISTING_WORK: u64 = 100_000;
/// How many bytes of memory for repeated values count as one step.
const COPIED_BYTES_PER_STEP: u64 = 256;
/// The memory of a value without its texts.
const VALUE_BYTES: u64 = 64;
/// The length of an array index in a JSON Pointer.
const INDEX_BYTES: u64 = 8;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
}

impl Schema {
    /// Fails with the place in the schema, and why it cannot be used.
    pub fn compile(schema: &Value) -> Result<Self, Pointed> {
        let cost = cost::of(schema)?;
        // The linear-time engine: patterns come from models and servers, too.
        let patterns = PatternOptions::regex().size_limit(text::COMPILED_BYTES).dfa_size_limit(text::COMPILED_BYTES);
        let options =
            jsonschema::options().with_pattern_options(patterns).with_keyword("uniqueItems", |_, wanted, _| {
                Ok(if *wanted == Value::Bool(true) { Box::new(unique::Unique) } else { Box::new(unique::Any) })
            });
        let validator = options.build(schema).map_err(|error| pointed(&error))?;
        Ok(Self { validator, cost })
    }

    /// The cost of checking a value.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The errors, each with its JSON Pointer and without the values themselves. Empty if the value is valid.
    pub fn mistakes(&self, value: &Value) -> Vec<Pointed> {
        let whole = |detail: &str| vec![Pointed { pointer: String::new(), detail: detail.to_owned() }];
        if exceeds(value, MOST_DEPTH) {
            return whole(&format!("nests deeper than {MOST_DEPTH}"));
        }
        let size = Size::of(value);
        if size.work(self.cost.steps, self.cost.text) > MAX_WORK {
            return whole("is too large to be checked against this schema");
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        if size.listing_work(self.cost) > MAX_LISTING_WORK {
            return whole("does not fit; it is too large for its mistakes to be listed");
        }
        self.validator.iter_errors(value).take(MAX_ERRORS).map(|error| pointed(&error)).collect()
    }

    /// An error for the model: the first error's pointer, and all errors in the message.
    pub fn check_call(&self, arguments: &Value) -> Result<(), ToolError> {
        self.check(CallCode::InvalidArguments, "The arguments do not fit the schema.", arguments)
    }

    /// The same for a tool's output.
    pub fn check_output(&self, output: &Value) -> Result<(), ToolError> {
        self.check(CallCode::InvalidOutput, "The output does not fit the schema that the tool declares.", output)
    }

    /// The same for a model's answer in JSON.
    pub fn check_answer(&self, answer: &Value) -> Result<(), ToolError> {
        self.check("invalid_answer", "The JSON does not fit the schema.", answer)
    }

    fn check(&self, code: impl Into<String>, what: &str, value: &Value) -> Result<(), ToolError> {
        let mistakes = self.mistakes(value);
        let Some(first) = mistakes.first() else {
            return Ok(());
        };
        let listed: Vec<String> =
            mistakes.iter().map(|m| format!("{}: {}", display_pointer(&m.pointer), m.detail)).collect();
        Err(ToolError::new(code, format!("{what} {}", listed.join("; "))).at(first.pointer.clone()))
    }

    /// A fault for a client that sent `value` as the member at `pointer` of a request.
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

/// A rejection as text, for callers without a separate field for its pointer.
pub fn describe(refused: &Pointed) -> String {
    format!("{} {}", display_pointer(&refused.pointer), refused.detail)
}

fn pointed(error: &jsonschema::ValidationError<'_>) -> Pointed {
    Pointed { pointer: error.instance_path().to_string(), detail: error.masked().to_string() }
}

fn display_pointer(pointer: &str) -> &str {
    if pointer.is_empty() { "(the whole)" } else { pointer }
}

/// The size of a value that is checked.
#[derive(Default)]
struct Size {
    values: u64,
    bytes: u64,
    /// Bytes of memory if every value has one error: an error holds the path to the value, and errors of alternatives
    /// also a copy of the value.
    copied: u64,
}

impl Size {
    fn of(value: &Value) -> Self {
        let mut size = Self::default();
        size.add(value, 1, 0);
        size
    }

    /// `path`: the length of the pointer to the value.
    fn add(&mut self, value: &Value, depth: u64, path: u64) {
        self.values += 1;
        self.copied += VALUE_BYTES * depth + path;
        match value {
            Value::String(text) => self.add_text(text, depth),
            Value::Array(items) => items.iter().for_each(|item| self.add(item, depth + 1, path + INDEX_BYTES)),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                self.add_text(name, depth);
                self.add(member, depth + 1, path + name.len() as u64 + 1);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_text(&mut self, text: &str, depth: u64) {
        let bytes = text.len() as u64;
        self.bytes += bytes;
        self.copied += bytes * depth;
    }

    fn work(&self, steps: u64, text: u64) -> u64 {
        self.values.saturating_mul(steps).saturating_add(self.bytes.saturating_mul(text))
    }

    /// The steps that copying the value into errors counts as.
    fn copy_steps(&self) -> u64 {
        self.copied / COPIED_BYTES_PER_STEP
    }

    fn listing_work(&self, cost: Cost) -> u64 {
        self.work(cost.report_steps, cost.text).saturating_add(self.copy_steps().saturating_mul(cost.report_steps))
    }
}

#[cfg(test)]
mod tests;
