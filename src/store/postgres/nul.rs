//! PostgreSQL's text holds every character but one. Bodies are JSON, where NUL is written `\u0000`; ids and keys, which
//! models and clients choose, are stored escaped.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// As it is stored.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0"))
}

/// As it was.
pub(super) fn unescaped(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    stored.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}")
}

#[cfg(test)]
mod tests;
