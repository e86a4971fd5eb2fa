//! How a reply in a given JSON form is requested.

use serde_json::{Map, Value};

use super::models::takes_form;
use crate::domain::model::ModelRequest;

/// The tool whose arguments are the reply, for models that accept no native output format.
pub(super) const FORM_TOOL: &str = "reply_in_this_form";
/// The schema keywords that the native format accepts; other keywords are rejected. `additionalProperties` must be
/// false.
const NATIVE: [&str; 9] =
    ["type", "properties", "required", "additionalProperties", "items", "enum", "const", "description", "title"];

/// The prompt describes the form in words, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `output_config.format`; it can be combined with everything else.
    Native,
    /// A tool that must be called. Vendors reject this together with thinking, and it hides other tools.
    Tool,
    Words,
}

pub(super) fn form(request: &ModelRequest, thinks: bool) -> Form {
    match &request.response_schema {
        None => Form::Words,
        Some(schema) if takes_form(&request.model) && is_native(schema) => Form::Native,
        Some(_) if thinks || !request.tools.is_empty() => Form::Words,
        Some(_) => Form::Tool,
    }
}

fn is_native(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let is_closed = members.get("type") != Some(&Value::from("object"))
        || members.get("additionalProperties") == Some(&Value::Bool(false));
    is_closed && members.iter().all(|(name, value)| is_member_native(name, value))
}

fn is_member_native(name: &str, value: &Value) -> bool {
    match name {
        "properties" => value.as_object().is_some_and(|all: &Map<String, Value>| all.values().all(is_native)),
        "items" => is_native(value),
        other => NATIVE.contains(&other),
    }
}
