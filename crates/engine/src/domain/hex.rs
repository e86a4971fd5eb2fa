//! Bytes as text: two lower-case digits for each.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub fn of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 0xF].map(|digit| char::from(DIGITS[usize::from(digit)])));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(super::of(&[0x00, 0x0F, 0xA5, 0xFF]), "000fa5ff");
        assert_eq!(super::of(&[]), "");
    }
}
