use proptest::prelude::*;

use super::*;

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, Error> {
    let (mut decoder, mut lines) = (LineDecoder::new(20), Vec::new());
    for mut piece in pieces {
        while let Some(line) = decoder.next(&mut piece)? {
            lines.push(line.to_owned());
        }
    }
    lines.extend(decoder.finish()?);
    Ok(lines)
}

#[test]
fn lines_are_told_apart_and_bounded() {
    assert_eq!(decode([b"{\"a\":1}\r\n\n".as_slice(), b"{\"b\"", b":2}"]).unwrap(), ["{\"a\":1}\r", "{\"b\":2}"]);
    assert_eq!(decode([b"0123456789".as_slice(); 3]), Err(Error::TooLarge(20)));
    assert_eq!(decode([b"\xFF\n".as_slice()]), Err(Error::NotText));
}

proptest! {
    #[test]
    fn splits_do_not_matter(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'x'), any::<u8>()], 0..60),
        at in 0usize..60,
    ) {
        let (left, right) = bytes.split_at(at.min(bytes.len()));
        prop_assert_eq!(decode([left, right]).ok(), decode([bytes.as_slice()]).ok());
    }
}
