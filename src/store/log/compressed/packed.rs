//! Texts with ids as bytes. Most ids of an entry stand nowhere else in it, so a compressor would keep each of their digits.

use memchr::memchr2;
use uuid::Uuid;

/// Bytes that no UTF-8 has, each before the 16 bytes of an id: a UUID with hyphens, or 32 digits without any, as in trace ids
/// and digests. All digits are hexadecimal and lower-case.
const HYPHENATED: u8 = 0xff;
const SIMPLE: u8 = 0xfe;

/// How many digits a UUID has before its first hyphen.
const FIRST_GROUP: usize = 8;
const DIGITS: usize = 32;

/// A text is less than this many times as long as its packed form.
pub(super) const MAX_RATIO: usize = 3;

/// It is no longer than the text.
pub(super) fn packed(text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let mut packed = Vec::with_capacity(text.len());
    // `packed` has all before `copied`.
    let (mut copied, mut at) = (0, 0);
    while let Some(skipped) = text[at..].iter().position(is_digit) {
        let begins = at + skipped;
        // No more than an id has: counting to the end of many digits anew for each id would take quadratic time.
        let digits = text[begins..].iter().take(DIGITS).take_while(|byte| is_digit(byte)).count();
        at = begins + digits;
        if let Some((mark, id, ends)) = id_at(text, begins, digits) {
            packed.extend_from_slice(&text[copied..begins]);
            packed.push(mark);
            packed.extend_from_slice(id.as_bytes());
            (copied, at) = (ends, ends);
        }
    }
    packed.extend_from_slice(&text[copied..]);
    packed
}

/// The id that begins with so many digits, counted up to [`DIGITS`], with its mark, and where it ends.
fn id_at(text: &[u8], begins: usize, digits: usize) -> Option<(u8, Uuid, usize)> {
    let (mark, length) = match digits {
        FIRST_GROUP => (HYPHENATED, uuid::fmt::Hyphenated::LENGTH),
        DIGITS => (SIMPLE, DIGITS),
        _ => return None,
    };
    let ends = begins + length;
    let digits = text.get(begins..ends)?;
    let id = Uuid::try_parse_ascii(digits).ok()?;
    (written(mark, id, &mut [0; uuid::fmt::Hyphenated::LENGTH]).as_bytes() == digits).then_some((mark, id, ends))
}

fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn written(mark: u8, id: Uuid, place: &mut [u8; uuid::fmt::Hyphenated::LENGTH]) -> &str {
    if mark == HYPHENATED { id.hyphenated().encode_lower(place) } else { id.simple().encode_lower(place) }
}

/// The text, of this length. `None`: it is damaged.
pub(super) fn unpacked(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > packed.len().saturating_mul(MAX_RATIO) {
        return None;
    }
    let mut text = Vec::with_capacity(length);
    while let Some(at) = memchr2(HYPHENATED, SIMPLE, packed) {
        let (before, marked) = packed.split_at(at);
        let (&[mark], rest) = marked.split_first_chunk()?;
        let (&id, rest) = rest.split_first_chunk()?;
        text.extend_from_slice(before);
        text.extend_from_slice(written(mark, Uuid::from_bytes(id), &mut [0; _]).as_bytes());
        packed = rest;
    }
    text.extend_from_slice(packed);
    (text.len() == length).then_some(text)
}

#[cfg(test)]
mod tests;
