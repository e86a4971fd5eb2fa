//! How deep a JSON value may nest. What is deeper is refused wherever values enter, so that whatever is stored can be read
//! again: our readers stop at 128, and a stored body wraps what came from outside.

use serde_json::Value;

/// Objects and arrays inside one another, in a value that anybody sent: a client, a person, a model, a tool, an agent.
pub const MOST_DEPTH: usize = 64;

/// JSON text of somebody else's; the message says what is wrong with it.
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
