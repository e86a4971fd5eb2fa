//! Escaping of NUL, the only character that PostgreSQL's text cannot hold. Bodies are JSON, where NUL is written `\u0000`;
//! ids and keys, which models and clients choose, are stored escaped.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// The stored form of a text.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0"))
}

/// The original of a stored text.
pub(super) fn unescaped(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    stored.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}")
}

#[cfg(test)]
mod tests;
