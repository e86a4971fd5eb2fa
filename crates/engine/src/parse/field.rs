//! Members of a JSON object, under any of the names that models use for them.

use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// The first of these members that is present and not null.
pub(super) fn any<'a>(object: &'a Object, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name).filter(|value| !value.is_null()))
}

/// A member as text: a string unchanged, a list line by line, anything else as JSON.
pub(super) fn text(object: &Object, names: &[&str]) -> Option<String> {
    any(object, names).map(as_text).filter(|text| !text.trim().is_empty())
}

pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(as_text).collect::<Vec<_>>().join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A member as a list of words: strings and numbers, objects by their `names`, or one string with commas.
pub(super) fn words(object: &Object, members: &[&str], names: &[&str]) -> Option<Vec<String>> {
    let value = any(object, members)?;
    let words: Vec<String> = match value {
        Value::Array(values) => values.iter().filter_map(|value| word(value, names)).collect(),
        Value::String(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => word(value, names).into_iter().collect(),
    };
    Some(words.into_iter().filter(|word| !word.is_empty()).collect())
}

fn word(value: &Value, names: &[&str]) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(object) => names.iter().find_map(|name| word(object.get(*name)?, &[])),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

/// Whether the last member has one of these names: a cut reply ended in it.
pub(super) fn is_last(object: &Object, names: &[&str]) -> bool {
    object.keys().next_back().is_some_and(|key| names.contains(&key.as_str()))
}
