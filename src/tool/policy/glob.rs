//! Names and globs.

use super::normal::{is_invisible, is_line_break};
use super::steps::Steps;

/// Steps for a byte that is looked at to divide a text, and for a part of it that is compared.
const STEPS_OF_BYTE: usize = 8;
const STEPS_OF_PART: usize = 64;

/// Whether a name or glob (`*` = any characters) covers a text.
pub fn matches(pattern: &str, text: &str) -> bool {
    covers(pattern, text, |_| true)
}

/// Whether an argument is certainly what the pattern means: `*` passes no line break and nothing invisible. In a pattern
/// with an `@`, which means one mail address, it passes nothing that stands between two.
pub(super) fn certainly(pattern: &str, text: &str) -> bool {
    let is_of_address = pattern.contains('@');
    covers(pattern, text, |passed| {
        !passed.contains(|c| {
            is_line_break(c) || is_invisible(c) || (is_of_address && (c == '@' || stands_between_addresses(c)))
        })
    })
}

/// Whether an argument may be what the pattern means: as a whole, by one of its lines or by one of the addresses in it.
/// `None`: there are no steps left to find out.
pub(super) fn possibly(pattern: &str, text: &str, steps: &Steps) -> Option<bool> {
    if matches(pattern, text) {
        return Some(true);
    }
    steps.take(STEPS_OF_BYTE * text.len())?;
    if pattern.contains('@') {
        any(pattern, text.split(stands_between_addresses), steps)
    } else {
        any(pattern, text.split(is_line_break), steps)
    }
}

/// Whether the pattern covers one of these; those that are too short for it cost next to nothing.
pub(super) fn any<'t>(pattern: &str, parts: impl Iterator<Item = &'t str>, steps: &Steps) -> Option<bool> {
    let shortest = pattern.len() - pattern.matches('*').count();
    for part in parts {
        let is_long_enough = part.len() >= shortest;
        steps.take(if is_long_enough { STEPS_OF_PART + pattern.len() } else { STEPS_OF_BYTE })?;
        if is_long_enough && matches(pattern, part) {
            return Some(true);
        }
    }
    Some(false)
}

/// The same pattern without a star beside a star.
pub(super) fn simplified(pattern: &str) -> String {
    let mut simple = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !simple.ends_with('*') {
            simple.push(c);
        }
    }
    simple
}

/// Blanks, separators, and what surrounds an address in its longer forms.
fn stands_between_addresses(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | ':' | '<' | '>' | '(' | ')' | '[' | ']' | '"' | '\\' | '|' | '%' | '!')
}

/// Whether the literal parts stand in the text in their order, with nothing between them that `passes` refuses. The first
/// place of each part is the best one: what lies before a later place includes all that lies before the first.
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

/// How exactly a pattern says what it covers: names before globs, then by their literal characters.
pub(super) fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.contains('*'), pattern.chars().filter(|c| *c != '*').count())
}

#[cfg(test)]
mod tests;
