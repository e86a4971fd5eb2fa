//! JSON Schemas of others: arguments and outputs of tools, forms for people. Compiled once where that is possible;
//! references never leave the document.
//!
//! Callers, models and servers choose both the schema and the value, and values are checked within decisions. So a schema
//! is taken only if the work for a value grows linearly with the value: [`cost`] follows every reference and works out how
//! many schemas one value can meet at most. Keywords whose work grows with more than that (`unevaluated*`, `$dynamicRef`,
//! `$recursiveRef`) are refused, and so is a schema that is applied to the same value once more by way of itself.
//! What would make a reference lead elsewhere than that walk is refused, too: a name that two schemas have, another address
//! below the root, and, where there are references, another draft there. A value that is too large for its schema is a mistake, too.

mod cost;
mod node;
mod text;
mod unique;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::tool::ToolError;

pub use cost::{Cost, MOST_SCHEMAS, values};

/// How many mistakes of one value are listed.
const MOST_ERRORS: usize = 8;
/// Steps for one value; `benches/bounds.rs` measures what the worst of them take.
pub const MOST_WORK: u64 = 4_000_000;
/// Steps beyond which it is only said that a value does not fit: all mistakes are found before the first is listed, and each
/// costs memory.
const WORK_OF_LISTING: u64 = 100_000;
/// Bytes that a mistake repeats in the memory that one step of listing stands for.
const REPEATED: u64 = 256;
/// A value in memory, besides its texts.
const VALUE_BYTES: u64 = 64;
/// An index in a JSON Pointer.
const INDEX_BYTES: u64 = 8;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
}

impl Schema {
    /// Refused with the place in the schema, and why it cannot be used.
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

    /// What checking a value against it costs.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// What is wrong, each with its JSON Pointer; values are not repeated. Empty = nothing.
    pub fn mistakes(&self, value: &Value) -> Vec<Pointed> {
        let whole = |detail: &str| vec![Pointed { pointer: String::new(), detail: detail.to_owned() }];
        if exceeds(value, MOST_DEPTH) {
            return whole(&format!("nests deeper than {MOST_DEPTH}"));
        }
        let size = Size::of(value);
        if size.work(self.cost.steps, self.cost.text) > MOST_WORK {
            return whole("is too large to be checked against this schema");
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        if size.work_of_listing(self.cost) > WORK_OF_LISTING {
            return whole("does not fit; it is too large for its mistakes to be listed");
        }
        self.validator.iter_errors(value).take(MOST_ERRORS).map(|error| pointed(&error)).collect()
    }

    /// For the model: the first mistake's pointer, and all of them in the message.
    pub fn check_call(&self, arguments: &Value) -> Result<(), ToolError> {
        self.check("invalid_arguments", "The arguments do not fit the schema.", arguments)
    }

    /// The same for what a tool brought back.
    pub fn check_output(&self, output: &Value) -> Result<(), ToolError> {
        self.check("invalid_output", "The output does not fit the schema that the tool declares.", output)
    }

    /// The same for what a model answers in JSON.
    pub fn check_answer(&self, answer: &Value) -> Result<(), ToolError> {
        self.check("invalid_answer", "The JSON does not fit the schema.", answer)
    }

    fn check(&self, code: &str, what: &str, value: &Value) -> Result<(), ToolError> {
        let mistakes = self.mistakes(value);
        let Some(first) = mistakes.first() else {
            return Ok(());
        };
        let told: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", place(&m.pointer), m.detail)).collect();
        Err(ToolError::new(code, format!("{what} {}", told.join("; "))).at(first.pointer.clone()))
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

/// A refusal in words, for those who cannot show its pointer apart.
pub fn why(refused: &Pointed) -> String {
    format!("{} {}", place(&refused.pointer), refused.detail)
}

fn pointed(error: &jsonschema::ValidationError<'_>) -> Pointed {
    Pointed { pointer: error.instance_path().to_string(), detail: error.masked().to_string() }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "(the whole)" } else { pointer }
}

/// Of a value that is checked.
#[derive(Default)]
struct Size {
    values: u64,
    bytes: u64,
    /// Bytes, if one mistake is found in each value: mistakes carry the path to the value, and those of alternatives also
    /// the value with all that is in it.
    copied: u64,
}

impl Size {
    fn of(value: &Value) -> Self {
        let mut size = Self::default();
        size.add(value, 1, 0);
        size
    }

    /// `path`: how long the pointer to the value is.
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

    /// Steps of listing for what repeats it once.
    fn repeated(&self) -> u64 {
        self.copied / REPEATED
    }

    fn work_of_listing(&self, cost: Cost) -> u64 {
        self.work(cost.telling, cost.text).saturating_add(self.repeated().saturating_mul(cost.telling))
    }
}

#[cfg(test)]
mod tests;
