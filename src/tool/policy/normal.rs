//! Normalises texts as people read them: texts that differ only in case, width, surrounding whitespace or invisible
//! characters become equal.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use super::steps::StepBudget;
use crate::domain::visible::is_invisible;

/// Steps per byte of input, and per character of output if the text is not all ASCII.
const STEPS_PER_BYTE: usize = 16;
const STEPS_PER_CHARACTER: usize = 256;

/// The text in NFKC, without case and invisible characters; whitespace is collapsed to one space and trimmed. `None`:
/// the step budget is exhausted. The result may be eleven times as long.
pub(super) fn fold(text: &str, steps: &StepBudget) -> Option<String> {
    steps.take(text.len() * STEPS_PER_BYTE)?;
    if text.is_ascii() {
        let seen = text.chars().filter(|c| !is_invisible(*c));
        return single_spaced(seen.map(|c| Some(c.to_ascii_lowercase())));
    }
    let counted = |c| steps.take(STEPS_PER_CHARACTER).map(|()| c);
    single_spaced(characters(text).map(counted))
}

/// Whether folding changes nothing but the case.
pub(super) fn is_folded(text: &str) -> bool {
    text.is_ascii() || characters(text).eq(text.to_lowercase().chars())
}

fn characters(text: &str) -> impl Iterator<Item = char> {
    let seen = text.chars().filter(|c| !is_invisible(*c)).nfkc();
    let without_case = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    without_case.nfkc().filter(|c| !is_invisible(*c))
}

pub(super) fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\u{b}' | '\u{c}' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn single_spaced(chars: impl Iterator<Item = Option<char>>) -> Option<String> {
    let mut text = String::new();
    let mut has_gap = false;
    for c in chars {
        let c = c?;
        if c.is_whitespace() {
            has_gap = !text.is_empty();
            continue;
        }
        if has_gap {
            text.push(' ');
            has_gap = false;
        }
        text.push(c);
    }
    Some(text)
}

/// The value with every text in it folded; member names stay unchanged. `None`: the step budget is exhausted.
pub(super) fn fold_all(value: &Value, steps: &StepBudget) -> Option<Value> {
    match value {
        Value::String(text) => fold(text, steps).map(Value::String),
        Value::Array(list) => list.iter().map(|entry| fold_all(entry, steps)).collect(),
        Value::Object(members) => {
            let folded = |(name, member): (&String, &Value)| Some((name.clone(), fold_all(member, steps)?));
            members.iter().map(folded).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.clone()),
    }
}

/// The size of a value: the bytes of its texts, plus 16 for each value in it. `None`: more than `most`.
pub(super) fn size(value: &Value, most: usize) -> Option<usize> {
    fn remaining(value: &Value, room: usize) -> Option<usize> {
        let room = room.checked_sub(16)?;
        match value {
            Value::String(text) => room.checked_sub(text.len()),
            Value::Array(list) => list.iter().try_fold(room, |room, entry| remaining(entry, room)),
            Value::Object(members) => {
                members.iter().try_fold(room, |room, (name, member)| remaining(member, room.checked_sub(name.len())?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(room),
        }
    }
    remaining(value, most).map(|left| most - left)
}

#[cfg(test)]
mod tests;
