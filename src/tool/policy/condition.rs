//! The conditions of rules on a call's arguments. The result is yes, no or in doubt, and doubt counts against the call:
//! the condition then holds in rules that deny or ask and does not hold in rules that allow.

use std::cmp::Ordering;

use serde_json::Value;

use super::argument::{Argument, MAX_EXAMINED};
use super::host::{Host, HostPattern};
use super::number::{self, NumberBounds};
use super::steps::StepBudget;
use super::{glob, normal};
use crate::domain::policy::{Condition, Op};

/// Maximum length of a pointer, in bytes.
const MAX_POINTER_BYTES: usize = 1_024;
/// Steps per comparison of one host with one pattern.
const STEPS_PER_HOST_PATTERN: usize = 16;

/// A compiled condition.
#[derive(Debug)]
pub(super) enum Check {
    Exists(bool),
    Comparison(ComparisonCheck),
    EmailDomain(Vec<HostPattern>),
    Host(Vec<HostPattern>),
    Number(NumberBounds),
}

/// A comparison of both forms of the value: as it is written, and normalised. In rules that deny or ask it holds if it
/// may hold for either form; in rules that allow, if it certainly holds for both.
#[derive(Debug)]
pub(super) struct ComparisonCheck {
    comparison: Comparison,
    exact: Value,
    folded: Value,
    size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Same,
    Differs,
    Ordered(&'static [Ordering]),
    OneOf,
    Contains,
    StartsWith,
    Matches,
}

/// The member of a condition that cannot be used, and why.
pub(super) type ConditionError = (String, &'static str);

impl Check {
    /// Compiles a condition; `steps` is the budget for all conditions that are compiled together.
    pub(super) fn new(condition: &Condition, steps: &StepBudget) -> Result<Self, ConditionError> {
        let pointer = &condition.pointer;
        if (!pointer.is_empty() && !pointer.starts_with('/')) || pointer.len() > MAX_POINTER_BYTES {
            return invalid("pointer", "must be a JSON Pointer: empty, or beginning with /, of at most 1024 bytes");
        }
        let value = &condition.value;
        let compared = |comparison| ComparisonCheck::new(comparison, value, steps).map(Self::Comparison);
        match condition.op {
            Op::Eq => compared(Comparison::Same),
            Op::Ne => compared(Comparison::Differs),
            Op::Lt => compared(Comparison::Ordered(&[Ordering::Less])),
            Op::Le => compared(Comparison::Ordered(&[Ordering::Less, Ordering::Equal])),
            Op::Gt => compared(Comparison::Ordered(&[Ordering::Greater])),
            Op::Ge => compared(Comparison::Ordered(&[Ordering::Greater, Ordering::Equal])),
            Op::In => compared(Comparison::OneOf),
            Op::Contains => compared(Comparison::Contains),
            Op::StartsWith => compared(Comparison::StartsWith),
            Op::Matches => compared(Comparison::Matches),
            Op::Exists => match value {
                Value::Null => Ok(Self::Exists(true)),
                Value::Bool(wanted) => Ok(Self::Exists(*wanted)),
                Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                    invalid("value", "must be true or false")
                }
            },
            Op::EmailDomain => patterns(value, false).map(Self::EmailDomain),
            Op::Host => patterns(value, true).map(Self::Host),
            Op::Number => NumberBounds::new(value).map(Self::Number).ok_or((
                "value".to_owned(),
                "must be an object of bounds (eq, ne, min, max, above, below), each a number",
            )),
        }
    }

    /// Whether the condition holds for the value at its pointer; `allows`: the rule allows calls.
    pub(super) fn holds(&self, argument: Option<&Argument<'_>>, steps: &StepBudget, allows: bool) -> bool {
        let answer = match (self, argument) {
            (Self::Exists(wanted), argument) => Some(argument.is_some() == *wanted),
            (Self::Comparison(check), Some(argument)) => check.evaluate(argument, steps, allows),
            (Self::EmailDomain(patterns), Some(argument)) => within(argument.domains(steps), patterns, steps),
            (Self::Host(patterns), Some(argument)) => within(argument.hosts(steps), patterns, steps),
            (Self::Number(bounds), Some(argument)) => {
                argument.exact(steps).and_then(|(value, _)| bounds.contains(value))
            }
            (Self::Comparison(_) | Self::EmailDomain(_) | Self::Host(_) | Self::Number(_), None) => None,
        };
        answer.unwrap_or(!allows)
    }
}

impl ComparisonCheck {
    fn new(comparison: Comparison, value: &Value, steps: &StepBudget) -> Result<Self, ConditionError> {
        let (is_right, how) = match comparison {
            Comparison::Same | Comparison::Differs => (true, ""),
            Comparison::Ordered(_) => (value.is_number() || value.is_string(), "must be a number or a text"),
            Comparison::OneOf => (value.is_array(), "must be a list"),
            Comparison::Contains => (!value.is_null(), "is missing"),
            Comparison::StartsWith | Comparison::Matches => (value.is_string(), "must be a text"),
        };
        if !is_right {
            return invalid("value", how);
        }
        let Some(size) = normal::size(value, MAX_EXAMINED) else { return invalid("value", "is larger than 64 KiB") };
        let (mut exact, Some(mut folded)) = (value.clone(), normal::fold_all(value, steps)) else {
            return invalid("value", "is too long with those before it, once they are normalised");
        };
        if comparison == Comparison::Matches {
            for pattern in [&mut exact, &mut folded] {
                *pattern = pattern.as_str().map(glob::simplified).into();
            }
        }
        let is_part = matches!(comparison, Comparison::Contains | Comparison::StartsWith | Comparison::Matches);
        if is_part && folded == "" {
            return invalid("value", "must have a character that is neither blank nor invisible");
        }
        Ok(Self { comparison, exact, folded, size })
    }

    fn evaluate(&self, argument: &Argument<'_>, steps: &StepBudget, allows: bool) -> Option<bool> {
        let (found, size) = argument.exact(steps)?;
        let exact = self.compare(found, &self.exact, size, steps, allows);
        let has_text = matches!(found, Value::String(_) | Value::Array(_) | Value::Object(_));
        if exact != Some(allows) || !has_text {
            return exact;
        }
        let folded = argument.folded(steps)?;
        let answer = self.compare(&folded.value, &self.folded, size, steps, allows);
        match &self.folded {
            Value::String(pattern) if self.comparison == Comparison::Matches && answer == Some(false) && !allows => {
                glob::any(pattern, folded.lines.iter().map(String::as_str), steps)
            }
            _ => answer,
        }
    }

    /// Compares one of the two forms. A comparison costs no more than the shorter of the two values, a search no more
    /// than both.
    fn compare(&self, found: &Value, expected: &Value, size: usize, steps: &StepBudget, allows: bool) -> Option<bool> {
        let is_search = matches!(self.comparison, Comparison::Contains | Comparison::Matches);
        steps.take(self.size + if is_search { 2 * size } else { 0 })?;
        match self.comparison {
            Comparison::Same => same(found, expected),
            Comparison::Differs => same(found, expected).map(|is_same| !is_same),
            Comparison::Ordered(wanted) => order(found, expected).map(|order| wanted.contains(&order)),
            Comparison::OneOf => any(expected.as_array()?.iter().map(|one| same(found, one))),
            Comparison::Contains => match (found, expected) {
                (Value::Array(list), one) => any(list.iter().map(|entry| same(entry, one))),
                (found, part) => texts(found, part).map(|(text, part)| text.contains(part)),
            },
            Comparison::StartsWith => texts(found, expected).map(|(text, start)| text.starts_with(start)),
            Comparison::Matches => texts(found, expected).and_then(|(text, pattern)| {
                if allows { Some(glob::certainly(pattern, text)) } else { glob::possibly(pattern, text, steps) }
            }),
        }
    }
}

/// Whether two values are equal. In doubt for values of different types (a text and a number, or null and anything
/// else). 1000 and 1000.0 are the same number.
fn same(found: &Value, expected: &Value) -> Option<bool> {
    match (found, expected) {
        (Value::Number(_), Value::Number(_)) => order(found, expected).map(|order| order == Ordering::Equal),
        (Value::String(found), Value::String(expected)) => Some(found == expected),
        (Value::Bool(found), Value::Bool(expected)) => Some(found == expected),
        (found, Value::Null) => Some(found.is_null()),
        (Value::Array(found), Value::Array(expected)) => {
            if found.len() != expected.len() {
                return Some(false);
            }
            all(found.iter().zip(expected).map(|(found, expected)| same(found, expected)))
        }
        (Value::Object(found), Value::Object(expected)) => {
            if found.len() != expected.len() {
                return Some(false);
            }
            all(expected
                .iter()
                .map(|(name, expected)| found.get(name).map_or(Some(false), |found| same(found, expected))))
        }
        (
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => None,
    }
}

fn order(found: &Value, expected: &Value) -> Option<Ordering> {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => number::order(found, expected),
        (found, expected) => texts(found, expected).map(|(found, expected)| found.cmp(expected)),
    }
}

fn texts<'v>(a: &'v Value, b: &'v Value) -> Option<(&'v str, &'v str)> {
    Some((a.as_str()?, b.as_str()?))
}

/// Yes if one is yes; no if all are no; else in doubt.
fn any(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all(answers.map(|answer| answer.map(|is_met| !is_met))).map(|none| !none)
}

/// No if one is no; yes if all are yes; else in doubt.
fn all(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut every = Some(true);
    for answer in answers {
        match answer {
            Some(true) => {}
            Some(false) => return Some(false),
            None => every = None,
        }
    }
    every
}

/// Yes if the patterns cover all hosts, no if none; in doubt if they cover only some.
fn within(hosts: Option<&[Host]>, patterns: &[HostPattern], steps: &StepBudget) -> Option<bool> {
    let hosts = hosts?;
    steps.take(STEPS_PER_HOST_PATTERN * hosts.len() * patterns.len())?;
    let covered = hosts.iter().filter(|host| patterns.iter().any(|pattern| pattern.covers(host))).count();
    match covered {
        0 => Some(false),
        covered => (covered == hosts.len()).then_some(true),
    }
}

/// One host or a list of hosts: only names, or addresses too.
fn patterns(value: &Value, with_addresses: bool) -> Result<Vec<HostPattern>, ConditionError> {
    if normal::size(value, MAX_EXAMINED).is_none() {
        return invalid("value", "is larger than 64 KiB");
    }
    let how = if with_addresses {
        "must be a host such as example.com, *.example.com for all below it, 192.0.2.1 or [2001:db8::1]"
    } else {
        "must be a domain such as example.com, or *.example.com for all below it"
    };
    let pattern = |value: &Value, place: String| {
        let pattern = value.as_str().and_then(HostPattern::new);
        let is_wanted = |pattern: &HostPattern| with_addresses || !matches!(pattern, HostPattern::Is(Host::Address(_)));
        pattern.filter(is_wanted).ok_or((place, how))
    };
    match value {
        Value::Array(list) if list.is_empty() => invalid("value", how),
        Value::Array(list) => list.iter().enumerate().map(|(at, one)| pattern(one, format!("value/{at}"))).collect(),
        one => Ok(vec![pattern(one, "value".to_owned())?]),
    }
}

fn invalid<T>(member: &str, how: &'static str) -> Result<T, ConditionError> {
    Err((member.to_owned(), how))
}

#[cfg(test)]
mod tests;
