//! Names and globs.

/// Whether a name or glob (`*` = any characters) covers a text.
pub fn matches(pattern: &str, text: &str) -> bool {
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
        left = &left[at + part.len()..];
    }
    left.ends_with(tail)
}

/// How exactly a pattern says what it covers: names before globs, then by their literal characters.
pub(super) fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.contains('*'), pattern.chars().filter(|c| *c != '*').count())
}

#[cfg(test)]
mod tests;
