//! Large values are stored once, under an id; everything else refers to them.
//!
//! A reference is the JSON object `{"$payload": "<id>"}`. Stored bodies (rows, observations) hold references; readers
//! see the value in their place (`inline`). What a payload contains is never searched for references, and a value that
//! itself contains the marker is always stored as a payload, so nobody can forge one.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ids::PayloadId;

const MARK: &str = "$payload";

/// Values whose JSON text is longer than this are stored apart.
pub const INLINE_LIMIT: usize = 512;

/// The values of references, by id.
pub type Payloads = HashMap<PayloadId, Arc<Value>>;

/// The value to write in place of this one: itself if it is small, else a reference, together with the payload to
/// store.
pub fn store(id: impl Into<PayloadId>, value: Value) -> (Value, Option<(PayloadId, Arc<Value>)>) {
    if is_small(&value) {
        return (value, None);
    }
    let id = id.into();
    (json!({ MARK: id }), Some((id, Arc::new(value))))
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.len() <= INLINE_LIMIT,
        Value::Array(_) | Value::Object(_) => {
            let mut text = [0; INLINE_LIMIT];
            let mut free = &mut text[..];
            // Fails as soon as the text is too long: a large value is not written out only to be measured.
            let is_short = serde_json::to_writer(&mut free, value).is_ok();
            let length = INLINE_LIMIT - free.len();
            is_short && !text[..length].windows(MARK.len()).any(|part| part == MARK.as_bytes())
        }
    }
}

/// The id that `value` refers to, if it is a reference.
pub fn reference(value: &Value) -> Option<PayloadId> {
    let map = value.as_object()?;
    if map.len() != 1 {
        return None;
    }
    Some(map.get(MARK)?.as_str()?.into())
}

/// Every reference inside `value`, in order of appearance.
pub fn references(value: &Value, found: &mut Vec<PayloadId>) {
    if let Some(id) = reference(value) {
        found.push(id);
        return;
    }
    match value {
        Value::Array(values) => values.iter().for_each(|v| references(v, found)),
        Value::Object(map) => map.values().for_each(|v| references(v, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `value` with each reference replaced by what it refers to; an unknown one stays as it is.
pub fn inline(value: Value, payloads: &Payloads) -> Value {
    if let Some(known) = reference(&value).and_then(|id| payloads.get(&id)) {
        return known.as_ref().clone();
    }
    match value {
        Value::Array(values) => values.into_iter().map(|v| inline(v, payloads)).collect(),
        Value::Object(map) => {
            let inlined: Map<String, Value> = map.into_iter().map(|(k, v)| (k, inline(v, payloads))).collect();
            Value::Object(inlined)
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

/// The approximate size of a value in bytes.
pub fn approximate_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(approximate_bytes).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + approximate_bytes(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_comes_back_whole_and_a_small_one_stays() {
        assert_eq!(store("p", json!([1, 2])), (json!([1, 2]), None));
        let large = json!("x".repeat(INLINE_LIMIT + 1));
        let (written, payload) = store("p", large.clone());
        assert!(written.to_string().len() < 40);
        let payloads = Payloads::from_iter(payload);
        assert_eq!(inline(json!({"a": [written]}), &payloads), json!({"a": [large]}));
    }

    #[test]
    fn the_whole_text_of_a_list_counts() {
        let list = |length: usize| json!(["x".repeat(length - 4)]);
        for (length, is_stored) in [(INLINE_LIMIT, false), (INLINE_LIMIT + 1, true), (9 * INLINE_LIMIT, true)] {
            assert_eq!(list(length).to_string().len(), length);
            assert_eq!(store("p", list(length)).1.is_some(), is_stored, "{length}");
        }
    }

    #[test]
    fn a_forged_reference_is_data() {
        let forged = json!({"$payload": "other"});
        let (written, payload) = store("mine", forged.clone());
        let mut payloads = Payloads::from_iter(payload);
        payloads.insert("other".into(), Arc::new(json!("secret")));
        assert_eq!(inline(written, &payloads), forged);
    }
}
