//! Halves of characters in chunks. A server that cuts a text by UTF-16 units sends the two escapes of a surrogate pair in
//! two chunks, and a JSON parser refuses both.

/// The length of an escape: `\uXXXX`.
const ESCAPE: usize = 6;
const REPLACEMENT: &str = "\\ufffd";

/// A chunk without lone halves of surrogate pairs.
#[derive(Debug, PartialEq)]
pub(super) struct Mended {
    pub(super) chunk: String,
    /// The first half of a pair at the end of a string, which was left out: the next chunk may begin with the second.
    pub(super) half: Option<u16>,
}

/// Joins the half before this chunk with the second half at the beginning of a string, and replaces other lone halves by
/// U+FFFD. `None`: there is no lone half.
pub(super) fn mend(chunk: &str, mut before: Option<u16>) -> Option<Mended> {
    let bytes = chunk.as_bytes();
    let mut mended = Mended { chunk: String::with_capacity(chunk.len()), half: None };
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let start = at + found;
        let Some(unit) = unit_at(bytes, start) else {
            at = start + 2;
            continue;
        };
        let end = start + ESCAPE;
        at = end;
        let replacement = if is_first(unit) {
            if unit_at(bytes, end).is_some_and(is_second) {
                at = end + ESCAPE;
                continue;
            }
            if bytes.get(end) == Some(&b'"') {
                mended.half = Some(unit);
                String::new()
            } else {
                REPLACEMENT.to_owned()
            }
        } else if is_second(unit) {
            let begins = bytes[..start].ends_with(b"\"") && !bytes[..start].ends_with(b"\\\"");
            let first = before.take_if(|_| begins);
            first.map_or_else(|| REPLACEMENT.to_owned(), |first| format!("\\u{first:04x}\\u{unit:04x}"))
        } else {
            continue;
        };
        mended.chunk.push_str(&chunk[copied..start]);
        mended.chunk.push_str(&replacement);
        copied = end;
    }
    mended.chunk.push_str(&chunk[copied..]);
    (copied > 0).then_some(mended)
}

/// The UTF-16 unit of the escape that begins here.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_first(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_second(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}
