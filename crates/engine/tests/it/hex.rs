//! Bytes as text.

use pes_engine::domain::hex;

#[test]
fn every_byte_is_two_digits() {
    assert_eq!(hex::of(&[0x00, 0x0F, 0xA5, 0xFF]), "000fa5ff");
    assert_eq!(hex::of(&[]), "");
}
