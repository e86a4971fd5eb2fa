//! The results of a client's own functions, which some protocols send as text.

use serde_json::{Number, Value};

use crate::domain::depth;

/// The value of a result that was sent as text. Text that is JSON is read as JSON. It stays text if it nests too
/// deeply, or if a number in it would be written back in another form than it was sent: in `1.10` or in a number of
/// twenty digits every character counts, such as of a price or of an identifier.
pub(super) fn read(text: &str) -> Value {
    match depth::read(text.as_bytes()) {
        Ok(value) if keeps_numbers(text) => value,
        Ok(_) | Err(_) => Value::from(text),
    }
}

/// Whether every number of this valid JSON text is written back as it is.
fn keeps_numbers(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let token = &rest[at..];
        if let Some(string) = token.strip_prefix('"') {
            rest = after_string(string);
            continue;
        }
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let (number, after) = token.split_at(token.find(|c: char| !is_of_number(c)).unwrap_or(token.len()));
        if !serde_json::from_str::<Number>(number).is_ok_and(|read| read.to_string() == number) {
            return false;
        }
        rest = after;
    }
    true
}

/// What follows the end of a string whose opening quotation mark was removed.
fn after_string(text: &str) -> &str {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests;
