//! Numbers: compared exactly, and read from texts only where every program reads the same.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use serde_json::{Number, Value};

/// The digits of a decimal fraction that are kept exactly.
const EXACT_DIGITS: usize = 15;

/// Between which bounds a number is wanted: each with the orders of number and bound that keep it.
#[derive(Debug)]
pub(super) struct Bounds(Vec<(&'static [Ordering], Number)>);

impl Bounds {
    /// From an object of `eq`, `ne`, `min`, `max`, `above` and `below`, one at least.
    pub(super) fn new(value: &Value) -> Option<Self> {
        let bounds = value.as_object().filter(|bounds| !bounds.is_empty())?;
        let bound = |(name, bound): (&String, &Value)| {
            let wanted: &[Ordering] = match name.as_str() {
                "eq" => &[Equal],
                "ne" => &[Less, Greater],
                "min" => &[Greater, Equal],
                "max" => &[Less, Equal],
                "above" => &[Greater],
                "below" => &[Less],
                _ => return None,
            };
            Some((wanted, bound.as_number()?.clone()))
        };
        bounds.iter().map(bound).collect::<Option<_>>().map(Self)
    }

    /// Whether all bounds are kept; `None`: it is no number.
    pub(super) fn hold(&self, value: &Value) -> Option<bool> {
        let number = match value {
            Value::Number(number) => number.clone(),
            Value::String(text) => written(text)?,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        self.0.iter().try_fold(true, |all, (wanted, bound)| Some(all && wanted.contains(&order(&number, bound)?)))
    }
}

/// A number that is written as one: `-12.5`; no blanks, no sign `+`, no leading zeros, no exponent, no separators.
fn written(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|c| c.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || (whole.starts_with('0') && whole != "0") {
        return None;
    }
    let number: Number = text.parse().ok()?;
    (number.is_i64() || number.is_u64() || digits.len() <= EXACT_DIGITS).then_some(number)
}

/// Which of two numbers is the greater, without rounding either.
pub(super) fn order(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => whole_and_fraction(a, b.as_f64()?),
        (None, Some(b)) => whole_and_fraction(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// A whole number of 64 bits beside any other.
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
