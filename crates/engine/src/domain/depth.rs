//! How deep a JSON value may nest. Deeper values are refused wherever values enter the server, so that everything that
//! is stored can be read again: our parsers stop at 128 levels, and a stored body adds some around a value from
//! outside.

use serde_json::Value;

/// The deepest nesting of objects and arrays in a value from outside: from a client, a person, a model, a tool, an
/// agent.
pub const MOST_DEPTH: usize = 64;

/// Parses JSON text from outside; the error says what is wrong with it.
pub fn read(text: &[u8]) -> Result<Value, String> {
    let value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if exceeds(&value, MOST_DEPTH) {
        return Err(format!("objects and arrays nest deeper than {MOST_DEPTH}"));
    }
    Ok(value)
}

/// Whether objects and arrays nest deeper than `most`. Looks no deeper than that, and at each value once.
pub fn exceeds(value: &Value, most: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        Value::Array(_) | Value::Object(_) if most == 0 => true,
        Value::Array(items) => items.iter().any(|item| exceeds(item, most - 1)),
        Value::Object(members) => members.values().any(|member| exceeds(member, most - 1)),
    }
}

#[cfg(test)]
mod tests;
