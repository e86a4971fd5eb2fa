//! Decodes server-sent events from bytes that may be split anywhere. Pure, with bounded memory.

/// Why the bytes are no stream of events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    #[error("an event is not UTF-8")]
    NotText,
}

#[derive(Debug)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// `data` was returned to the caller and is cleared at the next call.
    is_data_returned: bool,
    /// The last line ended with CR: an LF right after it belongs to the same line end.
    is_after_cr: bool,
    is_first_line: bool,
    limit: usize,
}

impl Decoder {
    /// `limit` is the maximum size of one event.
    pub(crate) fn new(limit: usize) -> Self {
        let (line, data) = (Vec::new(), Vec::new());
        Self { line, data, has_data: false, is_data_returned: false, is_after_cr: false, is_first_line: true, limit }
    }

    /// Returns the data of the next complete event and advances `bytes` past it; `None` when all bytes are consumed. An
    /// event that lies completely in `bytes` is not copied.
    pub(crate) fn next<'d, 'b: 'd>(&'d mut self, bytes: &mut &'b [u8]) -> Result<Option<&'d str>, Error> {
        self.clear_returned_data();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_after_cr) && bytes[0] == b'\n' {
                *bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.buffer_line(std::mem::take(bytes))?;
                return Ok(None);
            };
            let line = &bytes[..end];
            self.is_after_cr = bytes[end] == b'\r';
            *bytes = &bytes[end + 1..];
            if !self.line.is_empty() {
                self.buffer_line(line)?;
                let line = std::mem::take(&mut self.line);
                if self.end_line(&line) {
                    return self.data_text().map(Some);
                }
                continue;
            }
            self.check_limit(line.len())?;
            let is_alone = !self.has_data && !self.is_first_line && !self.is_after_cr;
            if let (true, Some(value), Some(b'\n')) = (is_alone, data_of(line), bytes.first()) {
                *bytes = &bytes[1..];
                return str::from_utf8(value).map(Some).map_err(|_| Error::NotText);
            }
            if self.end_line(line) {
                return self.data_text().map(Some);
            }
        }
        Ok(None)
    }

    /// The event that was incomplete when the stream ended without the final empty line, if any.
    pub(crate) fn finish(mut self) -> Result<Option<String>, Error> {
        self.clear_returned_data();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line);
        }
        if self.has_data { String::from_utf8(self.data).map(Some).map_err(|_| Error::NotText) } else { Ok(None) }
    }

    fn clear_returned_data(&mut self) {
        if std::mem::take(&mut self.is_data_returned) {
            self.data.clear();
        }
    }

    fn buffer_line(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check_limit(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn check_limit(&self, more: usize) -> Result<(), Error> {
        let held = self.line.len() + self.data.len() + more;
        if held > self.limit { Err(Error::TooLarge(self.limit)) } else { Ok(()) }
    }

    /// Processes a whole line. Returns whether it ended an event.
    fn end_line(&mut self, line: &[u8]) -> bool {
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(line) if self.is_first_line => line,
            Some(_) | None => line,
        };
        self.is_first_line = false;
        if line.is_empty() {
            return std::mem::take(&mut self.has_data);
        }
        if let Some(value) = data_of(line) {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        false
    }

    fn data_text(&mut self) -> Result<&str, Error> {
        self.is_data_returned = true;
        str::from_utf8(&self.data).map_err(|_| Error::NotText)
    }
}

/// What the line adds to the event's data: the text after `data`, a colon and one optional space. Comments (a leading colon),
/// `event`, `id`, `retry` and unknown fields add nothing.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Result<Vec<String>, Error> {
        let (mut decoder, mut events) = (Decoder::new(limit), Vec::new());
        for mut piece in pieces {
            while let Some(event) = decoder.next(&mut piece)? {
                events.push(event.to_owned());
            }
        }
        events.extend(decoder.finish()?);
        Ok(events)
    }

    #[test]
    fn every_line_end_every_split_gives_the_same_events() {
        let text = "\u{FEFF}: hi\nevent: x\nid: 7\ndata: {\"a\":1}\n\ndata:é\ndata:  two\n\n\nretry: 1\n\ndata\n\ndatax: no\n\ndata: open";
        let expected = ["{\"a\":1}", "é\n two", "", "open"];
        for end in ["\n", "\r", "\r\n"] {
            let bytes = text.replace('\n', end).into_bytes();
            for split in 0..=bytes.len() {
                let (left, right) = bytes.split_at(split);
                assert_eq!(decode([left, right], 1000).unwrap(), expected, "split at {split} with {end:?}");
            }
            assert_eq!(decode(bytes.chunks(1), 1000).unwrap(), expected);
        }
    }

    #[test]
    fn an_endless_event_is_refused_and_comments_are_not_kept() {
        assert_eq!(decode([b"data: 0123456789".as_slice(); 2], 20), Err(Error::TooLarge(20)));
        assert_eq!(decode([b"data: 01234\n".as_slice(); 5], 20), Err(Error::TooLarge(20)));
        assert_eq!(decode([b": 0123456789\n".as_slice(); 50], 20), Ok(Vec::new()));
        assert_eq!(decode([b"data: \xFF\n\n".as_slice()], 20), Err(Error::NotText));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_one_answer(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(pieces, 1000), decode([bytes.as_slice()], 1000));
        }
    }
}
