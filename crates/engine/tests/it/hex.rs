//! Bytes as text.

use pes_engine::domain::hex;

#[test]
fn every_byte_is_two_digits() {
    assert_eq!(hex::of(&[0x00, 0x0F, 0xA5, 0xFF]), "000fa5ff");
    assert_eq!(hex::of(&[]), "");
}

#[test]
fn only_pairs_of_digits_are_read() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    assert_eq!(hex::read(&hex::of(&all)), Some(all));
    assert_eq!(hex::read("0aFf"), Some(vec![0x0A, 0xFF]));
    assert_eq!(hex::read(""), Some(Vec::new()));
    for text in ["+f", "-1", "0x", "f", "0ff", " f", "0g", "é"] {
        assert_eq!(hex::read(text), None, "{text:?}");
    }
}
