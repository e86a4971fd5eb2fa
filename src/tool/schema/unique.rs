//! `uniqueItems` by the serialised items, which is always linear. The library compares all items with equal hashes, and
//! it is easy to build many nested arrays that have the same hash.

use std::collections::HashSet;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

pub(super) struct Unique;

impl<'i> Keyword<'i> for Unique {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if is_unique(value) { Ok(()) } else { Err(ValidationError::custom("has an item twice")) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        is_unique(value)
    }
}

/// The keyword with the value `false`, which requires nothing.
pub(super) struct Any;

impl<'i> Keyword<'i> for Any {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        true
    }
}

fn is_unique(value: &Value) -> bool {
    let Some(items) = value.as_array() else {
        return true;
    };
    let mut known = HashSet::with_capacity(items.len());
    items.iter().all(|item| {
        let mut text = String::new();
        write(item, &mut text);
        known.insert(text)
    })
}

/// Serialises so that values are equal in JSON Schema iff their texts are: 1 and 1.0 are equal, members have no order.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
            // Adding 0.0 turns -0.0 into 0.0.
            Some(whole) => text.push_str(&format!("{:.0}", whole + 0.0)),
            None => text.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_is_what_json_schema_says() {
        for twice in [
            json!([1, 1.0]),
            json!([-0.0, 0]),
            json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
            json!([[], []]),
            json!([null, null]),
        ] {
            assert!(!is_unique(&twice), "{twice}");
        }
        for once in [json!([1, "1", true, [1], {"1": 1}, null, 1.5]), json!([[[], []], [[[]]]]), json!("aa")] {
            assert!(is_unique(&once), "{once}");
        }
    }

    /// To compare each with all others would take minutes of the processor; those of other tests are not counted.
    #[test]
    fn many_items_take_no_longer_than_they_are_many() {
        let worked = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let (items, before) = (Value::from_iter((0..400_000).map(|n| json!([n]))), worked());
        assert!(is_unique(&items));
        let took = worked() - before;
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}
