//! The digest of a JSON value: the same for the same content, whatever its spelling or transport.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::hex;

/// SHA-256, hex, of its canonical text.
pub fn of(value: &Value) -> String {
    hashed(&canonical(value))
}

/// The value with its members in order of their names and no white space.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// What an approval is bound to: the digest of `{"arguments": …, "tool": …}`.
pub fn of_call(tool: &str, arguments: &Value) -> String {
    let mut text = "{\"arguments\":".to_owned();
    write(arguments, &mut text);
    text.push_str(",\"tool\":");
    write(&tool.into(), &mut text);
    text.push('}');
    hashed(&text)
}

fn hashed(text: &str) -> String {
    hex::of(&Sha256::digest(text))
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            enclose(text, ('{', '}'), members, |(key, value), text| {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            });
        }
        Value::Array(items) => enclose(text, ('[', ']'), items, write),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

fn enclose<T>(
    text: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    text.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(item, text);
    }
    text.push(close);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spelling_does_not_matter_and_content_does() {
        let one: Value = serde_json::from_str(r#"{"b":[1,{"y":"\"","x":null}],"a":true}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{ "a":true, "b":[1,{"x":null,"y":"\u0022"}] }"#).unwrap();
        assert_eq!(of(&one), of(&two));
        assert_ne!(of(&json!([1, 2])), of(&json!([2, 1])));
        assert_ne!(of(&json!({"a": "1"})), of(&json!({"a": 1})));
        assert_eq!(of(&json!({})).len(), 64);
        let call = of_call("t\"", &json!({"b": 1, "a": [2]}));
        assert_eq!(call, of(&json!({"tool": "t\"", "arguments": {"a": [2], "b": 1}})));
    }
}
