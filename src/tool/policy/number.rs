//! Numbers: compared exactly, and parsed from text only in forms that every program reads alike.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use serde_json::{Number, Value};

/// How many digits of a decimal fraction a double holds exactly.
const EXACT_DIGITS: usize = 15;

/// The bounds of a number: each with the orderings (number against bound) that satisfy it.
#[derive(Debug)]
pub(super) struct NumberBounds(Vec<(&'static [Ordering], Number)>);

impl NumberBounds {
    /// Parses an object with at least one of `eq`, `ne`, `min`, `max`, `above` and `below`.
    pub(super) fn new(value: &Value) -> Option<Self> {
        let bounds = value.as_object().filter(|bounds| !bounds.is_empty())?;
        let bound = |(name, bound): (&String, &Value)| {
            let accepted: &[Ordering] = match name.as_str() {
                "eq" => &[Equal],
                "ne" => &[Less, Greater],
                "min" => &[Greater, Equal],
                "max" => &[Less, Equal],
                "above" => &[Greater],
                "below" => &[Less],
                _ => return None,
            };
            Some((accepted, bound.as_number()?.clone()))
        };
        bounds.iter().map(bound).collect::<Option<_>>().map(Self)
    }

    /// Whether the value satisfies all bounds; `None`: it is no number.
    pub(super) fn contains(&self, value: &Value) -> Option<bool> {
        let number = match value {
            Value::Number(number) => number.clone(),
            Value::String(text) => parse_decimal(text)?,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        self.0.iter().try_fold(true, |all, (accepted, bound)| Some(all && accepted.contains(&order(&number, bound)?)))
    }
}

/// Parses a plain decimal such as `-12.5`: no whitespace, no `+`, no leading zeros, no exponent, no separators.
fn parse_decimal(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|c| c.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || (whole.starts_with('0') && whole != "0") {
        return None;
    }
    let number: Number = text.parse().ok()?;
    (number.is_i64() || number.is_u64() || digits.len() <= EXACT_DIGITS).then_some(number)
}

/// Compares two numbers without rounding either.
pub(super) fn order(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => whole_and_fraction(a, b.as_f64()?),
        (None, Some(b)) => whole_and_fraction(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Compares a 64-bit integer with any other number.
fn whole_and_fraction(whole: i128, other: f64) -> Option<Ordering> {
    const BEYOND: f64 = 1e20;
    if other.abs() >= BEYOND {
        return 0.0.partial_cmp(&other);
    }
    let below = other.floor();
    let order = whole.cmp(&(below as i128));
    Some(order.then(if other > below { Less } else { Equal }))
}

#[cfg(test)]
mod tests;
