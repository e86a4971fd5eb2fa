//! Bytes as text: two lower-case digits for each. Upper-case digits are read, too.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two lower-case digits for each byte.
pub fn of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 0xF].map(|digit| char::from(DIGITS[usize::from(digit)])));
    }
    text
}

/// The bytes of a text of digits; `None` for any other text, and for an odd number of digits.
pub fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}
