//! Names and globs.

use super::normal::is_line_break;
use super::steps::StepBudget;
use crate::domain::visible::is_invisible;

/// Steps per byte that is scanned to split a text, and per part that is compared.
const STEPS_PER_BYTE: usize = 8;
const STEPS_PER_PART: usize = 64;

/// Whether a name or glob (`*` = any characters) covers a text.
pub fn matches(pattern: &str, text: &str) -> bool {
    covers(pattern, text, |_| true)
}

/// Whether an argument certainly matches: `*` matches no line break and no invisible character. In a pattern with an
/// `@`, which means one email address, `*` also matches no separator between addresses.
pub(super) fn certainly(pattern: &str, text: &str) -> bool {
    let is_of_address = pattern.contains('@');
    covers(pattern, text, |passed| {
        !passed.contains(|c| {
            is_line_break(c) || is_invisible(c) || (is_of_address && (c == '@' || stands_between_addresses(c)))
        })
    })
}

/// Whether an argument may match: as a whole, in one of its lines, or in one of the addresses in it. `None`: the step
/// budget is exhausted.
pub(super) fn possibly(pattern: &str, text: &str, steps: &StepBudget) -> Option<bool> {
    if matches(pattern, text) {
        return Some(true);
    }
    steps.take(STEPS_PER_BYTE * text.len())?;
    if pattern.contains('@') {
        any(pattern, text.split(stands_between_addresses), steps)
    } else {
        any(pattern, text.split(is_line_break), steps)
    }
}

/// Whether the pattern matches one of the parts. Parts that are too short cost almost nothing.
pub(super) fn any<'t>(pattern: &str, parts: impl Iterator<Item = &'t str>, steps: &StepBudget) -> Option<bool> {
    let shortest = pattern.len() - pattern.matches('*').count();
    for part in parts {
        let is_long_enough = part.len() >= shortest;
        steps.take(if is_long_enough { STEPS_PER_PART + pattern.len() } else { STEPS_PER_BYTE })?;
        if is_long_enough && matches(pattern, part) {
            return Some(true);
        }
    }
    Some(false)
}

/// The same pattern with adjacent stars merged.
pub(super) fn simplified(pattern: &str) -> String {
    let mut simple = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !simple.ends_with('*') {
            simple.push(c);
        }
    }
    simple
}

/// Whitespace, separators, and what surrounds an address in its longer forms.
fn stands_between_addresses(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | ':' | '<' | '>' | '(' | ')' | '[' | ']' | '"' | '\\' | '|' | '%' | '!')
}

/// Whether the pattern's literal parts occur in the text in order, with nothing between them that `passes` rejects.
/// Taking the first occurrence of each part is enough: the gap before a later one contains the gap before the first.
fn covers(pattern: &str, text: &str, passes: impl Fn(&str) -> bool) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(head) else {
        return false;
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = left.find(part) else {
            return false;
        };
        if !passes(&left[..at]) {
            return false;
        }
        left = &left[at + part.len()..];
    }
    left.strip_suffix(tail).is_some_and(passes)
}

/// How specific a pattern is: names before globs, then by the number of literal characters.
pub(super) fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.contains('*'), pattern.chars().filter(|c| *c != '*').count())
}

#[cfg(test)]
mod tests;
