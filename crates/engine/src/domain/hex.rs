//! Bytes as text: two lower-case digits for each.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub fn of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 0xF].map(|digit| char::from(DIGITS[usize::from(digit)])));
    }
    text
}
