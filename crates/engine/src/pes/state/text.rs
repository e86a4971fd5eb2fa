//! Values as JSON, and texts cut to a length.

use serde_json::Value;

/// A value of our own as JSON.
pub(crate) fn to_value(body: &impl serde::Serialize) -> Value {
    serde_json::to_value(body).expect("our own types have string keys and finite numbers")
}

/// The beginning of a text, with a note where it was cut.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => {
            let count = text.chars().count();
            format!("{}… [cut here: {} more characters of {count} stand with the item]", &text[..at], count - most)
        }
        None => text.to_owned(),
    }
}

/// The first `most` characters, with an ellipsis if the text is longer.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
