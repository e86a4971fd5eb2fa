//! `llmParams`: the closed list of parameters that a caller may set, checked when a run is accepted.

use serde_json::{Map, Value};

use crate::domain::fault::{Code, Fault};
use crate::domain::pointer;

/// The name, the check of the value, and the check in words.
type Rule = (&'static str, fn(&Value) -> bool, &'static str);

/// No model writes longer replies; the bound also keeps sums of token limits from overflowing.
const MAX_TOKENS: u64 = 10_000_000;

/// What thinking leaves of a requested length for the reply itself, but at most half of the length.
const MIN_ANSWER: u64 = 4_096;

const KNOWN: [Rule; 8] = [
    ("temperature", |value| within(value, 0.0, 2.0), "a number from 0 to 2"),
    ("topP", |value| within(value, 0.0, 1.0), "a number from 0 to 1"),
    (
        "maxTokens",
        |value| value.as_u64().is_some_and(|n| (1..=MAX_TOKENS).contains(&n)),
        "a whole number from 1 to 10000000",
    ),
    ("seed", Value::is_i64, "a whole number"),
    ("stop", is_stop, "a text or up to 4 texts"),
    ("frequencyPenalty", |value| within(value, -2.0, 2.0), "a number from -2 to 2"),
    ("presencePenalty", |value| within(value, -2.0, 2.0), "a number from -2 to 2"),
    ("reasoningEffort", is_effort, "none, minimal, low, medium, high or xhigh"),
];

/// The fault has a pointer to each parameter that is unknown or out of range.
pub(crate) fn check(params: &Map<String, Value>) -> Result<(), Fault> {
    let mut fault = Fault::new(Code::Invalid, "Some of `llmParams` cannot be used; see the pointers.");
    for (name, value) in params {
        let pointer = format!("/options/llmParams/{}", pointer::token(name));
        match KNOWN.iter().find(|(known, ..)| known == name) {
            Some((_, holds, _)) if holds(value) => {}
            Some((_, _, rule)) => fault = fault.at(pointer, format!("must be {rule}")),
            None => {
                fault = fault.at(pointer, format!("unknown; there is {}", KNOWN.map(|(known, ..)| known).join(", ")))
            }
        }
    }
    if fault.errors.is_empty() { Ok(()) } else { Err(fault) }
}

/// How much of a reply of this length may be thinking, where the vendor counts both.
pub(crate) fn room_for_thinking(length: u64) -> u64 {
    length - (length / 2).min(MIN_ANSWER)
}

/// A valid parameter that this provider or model does not support.
pub(crate) fn unsupported(name: &str, why: &str) -> Fault {
    let detail = format!("`llmParams.{name}` cannot be used: {why}.");
    Fault::new(Code::Invalid, detail).at(format!("/options/llmParams/{name}"), why)
}

fn within(value: &Value, low: f64, high: f64) -> bool {
    value.as_f64().is_some_and(|number| (low..=high).contains(&number))
}

fn is_stop(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(texts) => {
            texts.len() <= 4 && texts.iter().all(|text| text.as_str().is_some_and(|t| !t.is_empty()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn is_effort(value: &Value) -> bool {
    value.as_str().is_some_and(|effort| ["none", "minimal", "low", "medium", "high", "xhigh"].contains(&effort))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unknown_or_out_of_range_is_pointed_to() {
        let good =
            json!({"temperature": 0, "topP": 0.5, "maxTokens": 9, "seed": -1, "stop": ["a"], "reasoningEffort": "low"});
        assert_eq!(check(good.as_object().unwrap()), Ok(()));
        let bad = json!({"temperature": 3, "topP": "x", "maxTokens": 0, "seed": 0.5, "stop": [1], "reasoningEffort": "max", "user/id": 1});
        let fault = check(bad.as_object().unwrap()).unwrap_err();
        assert_eq!((fault.code, fault.errors.len()), (Code::Invalid, 7));
        assert_eq!(fault.errors[6].pointer, "/options/llmParams/user~1id");
        let most = |tokens: u64| check(json!({ "maxTokens": tokens }).as_object().unwrap());
        assert_eq!(most(10_000_000), Ok(()));
        for tokens in [10_000_001, 10_u64.pow(16), u64::MAX] {
            assert_eq!(most(tokens).unwrap_err().errors[0].pointer, "/options/llmParams/maxTokens");
        }
    }
}
