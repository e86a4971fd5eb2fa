//! Splits JSON documents, one per line, from bytes that may be split anywhere. Pure, with bounded memory.

use crate::egress::sse::Error;

#[derive(Debug)]
pub(crate) struct LineDecoder {
    line: Vec<u8>,
    /// `line` was returned to the caller and is cleared at the next call.
    is_line_returned: bool,
    limit: usize,
}

impl LineDecoder {
    /// `limit` is the maximum length of one line.
    pub(crate) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), is_line_returned: false, limit }
    }

    /// Returns the next complete line that is not empty and advances `bytes` past it; `None` when all bytes are
    /// consumed. A line that lies completely in `bytes` is not copied.
    pub(crate) fn next<'d, 'b: 'd>(&'d mut self, bytes: &mut &'b [u8]) -> Result<Option<&'d str>, Error> {
        if std::mem::take(&mut self.is_line_returned) {
            self.line.clear();
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let line = &bytes[..end];
            *bytes = &bytes[end + 1..];
            self.check_limit(line)?;
            if self.line.is_empty() {
                let line = text(line)?;
                if !line.trim().is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.line.extend_from_slice(line);
            if !text(&self.line)?.trim().is_empty() {
                self.is_line_returned = true;
                return text(&self.line).map(Some);
            }
            self.line.clear();
        }
        self.check_limit(bytes)?;
        self.line.extend_from_slice(std::mem::take(bytes));
        Ok(None)
    }

    /// The line that was incomplete when the stream ended, if any.
    pub(crate) fn finish(self) -> Result<Option<String>, Error> {
        let line = if self.is_line_returned { "" } else { text(&self.line)? };
        Ok(if line.trim().is_empty() { None } else { Some(line.to_owned()) })
    }

    fn check_limit(&self, more: &[u8]) -> Result<(), Error> {
        if self.line.len() + more.len() > self.limit { Err(Error::TooLarge(self.limit)) } else { Ok(()) }
    }
}

fn text(line: &[u8]) -> Result<&str, Error> {
    str::from_utf8(line).map_err(|_| Error::NotText)
}

#[cfg(test)]
mod tests;
