//! What a rule asks of a call's arguments.

use std::cmp::Ordering;

use serde_json::Value;

use super::glob;
use crate::domain::policy::{Condition, Op};

/// Whether the condition holds of what stands at its pointer. `in_doubt` is the answer where the two cannot be compared.
pub(super) fn holds(op: Op, expected: &Value, found: Option<&Value>, in_doubt: bool) -> bool {
    let Some(found) = found else {
        return op == Op::Ne || (op == Op::Exists && *expected == Value::Bool(false));
    };
    let ordered = |wanted: &[Ordering]| order(found, expected).map_or(in_doubt, |order| wanted.contains(&order));
    match op {
        Op::Eq => is_same(found, expected),
        Op::Ne => !is_same(found, expected),
        Op::Lt => ordered(&[Ordering::Less]),
        Op::Le => ordered(&[Ordering::Less, Ordering::Equal]),
        Op::Gt => ordered(&[Ordering::Greater]),
        Op::Ge => ordered(&[Ordering::Greater, Ordering::Equal]),
        Op::In => expected.as_array().is_some_and(|list| list.iter().any(|one| is_same(found, one))),
        Op::Contains => match (found, expected) {
            (Value::Array(list), one) => list.iter().any(|entry| is_same(entry, one)),
            (Value::String(text), Value::String(part)) => text.contains(part),
            (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_), _) => in_doubt,
        },
        Op::StartsWith => texts(found, expected).map_or(in_doubt, |(text, start)| text.starts_with(start)),
        Op::Matches => texts(found, expected).map_or(in_doubt, |(text, pattern)| glob::matches(pattern, text)),
        Op::Exists => *expected != Value::Bool(false),
    }
}

/// 1000 and 1000.0 are the same number.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => order(a, b) == Some(Ordering::Equal),
        (
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (Some(_) | None, _) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => None,
    }
}

fn texts<'v>(a: &'v Value, b: &'v Value) -> Option<(&'v str, &'v str)> {
    Some((a.as_str()?, b.as_str()?))
}

/// What is wrong with a condition: where in it, and how.
pub(super) fn check(condition: &Condition) -> Result<(), (&'static str, &'static str)> {
    if !condition.pointer.is_empty() && !condition.pointer.starts_with('/') {
        return Err(("pointer", "must be a JSON Pointer: empty, or beginning with /"));
    }
    let value = &condition.value;
    let (is_right, how) = match condition.op {
        Op::Eq | Op::Ne => (true, ""),
        Op::Lt | Op::Le | Op::Gt | Op::Ge => (value.is_number() || value.is_string(), "must be a number or a text"),
        Op::In => (value.is_array(), "must be a list"),
        Op::Contains => (!value.is_null(), "is missing"),
        Op::StartsWith | Op::Matches => (value.is_string(), "must be a text"),
        Op::Exists => (value.is_boolean() || value.is_null(), "must be true or false"),
    };
    if is_right { Ok(()) } else { Err(("value", how)) }
}

#[cfg(test)]
mod tests;
