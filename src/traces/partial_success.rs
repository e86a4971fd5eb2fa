//! What a collector says in a response of success: that it rejected some of the spans, and why. `ExportTraceServiceResponse`
//! of opentelemetry-proto 1.x, in the wire format of Protocol Buffers.

/// `ExportTracePartialSuccess`; the default: all spans were accepted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PartialSuccess {
    pub(super) rejected: u64,
    pub(super) why: String,
}

/// A field's value, by its wire type.
enum FieldValue<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl PartialSuccess {
    /// Reads a response as far as it is readable.
    pub(super) fn read(mut response: &[u8]) -> Self {
        let mut partial = Self::default();
        while let Some((number, value)) = next_field(&mut response) {
            if let (1, FieldValue::Bytes(message)) = (number, value) {
                partial.read_message(message);
            }
        }
        partial
    }

    fn read_message(&mut self, mut message: &[u8]) {
        while let Some((number, value)) = next_field(&mut message) {
            match value {
                FieldValue::Number(rejected) if number == 1 => self.rejected = rejected,
                FieldValue::Bytes(why) if number == 2 => self.why = String::from_utf8_lossy(why).into_owned(),
                FieldValue::Number(_) | FieldValue::Bytes(_) => {}
            }
        }
    }
}

/// The next field and its number; `None` at the end, or where the bytes are no message.
fn next_field<'b>(bytes: &mut &'b [u8]) -> Option<(u64, FieldValue<'b>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        0 => FieldValue::Number(varint(bytes)?),
        1 => FieldValue::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            FieldValue::Bytes(take(bytes, length)?)
        }
        5 => FieldValue::Bytes(take(bytes, 4)?),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_read_and_what_is_no_message_is_nothing() {
        let some = b"\x0a\x09\x08\xac\x02\x12\x04\x71\x75\x6f\x74";
        assert_eq!(PartialSuccess::read(some), PartialSuccess { rejected: 300, why: "quot".to_owned() });
        let beside_other_fields = [&b"\x1d\x01\x02\x03\x04"[..], some].concat();
        assert_eq!(PartialSuccess::read(&beside_other_fields).rejected, 300);
        for nothing in [&b""[..], b"\x0a\x00", b"{\"partialSuccess\":{}}", b"\x0a\xff", &[0xff; 20]] {
            assert_eq!(PartialSuccess::read(nothing), PartialSuccess::default(), "{nothing:?}");
        }
    }
}
