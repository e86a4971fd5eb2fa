//! Texts cut to a length.

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
