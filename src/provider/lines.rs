//! JSON documents, one a line, out of bytes that were split anywhere. Pure; what it holds is bounded.

use crate::egress::sse::Error;

#[derive(Debug)]
pub(crate) struct Lines {
    line: Vec<u8>,
    /// `line` was handed out.
    is_told: bool,
    limit: usize,
}

impl Lines {
    /// `limit` bounds one line.
    pub(crate) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), is_told: false, limit }
    }

    /// The next line that is complete with these bytes, from which it is taken, and not empty; `None`: they are used up.
    /// A line that stands in them whole is not copied.
    pub(crate) fn next<'d, 'b: 'd>(&'d mut self, bytes: &mut &'b [u8]) -> Result<Option<&'d str>, Error> {
        if std::mem::take(&mut self.is_told) {
            self.line.clear();
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let line = &bytes[..end];
            *bytes = &bytes[end + 1..];
            self.within_limit(line)?;
            if self.line.is_empty() {
                let line = text(line)?;
                if !line.trim().is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.line.extend_from_slice(line);
            if !text(&self.line)?.trim().is_empty() {
                self.is_told = true;
                return text(&self.line).map(Some);
            }
            self.line.clear();
        }
        self.within_limit(bytes)?;
        self.line.extend_from_slice(std::mem::take(bytes));
        Ok(None)
    }

    /// The line that was under way when the stream ended, if any.
    pub(crate) fn finish(self) -> Result<Option<String>, Error> {
        let line = if self.is_told { "" } else { text(&self.line)? };
        Ok(if line.trim().is_empty() { None } else { Some(line.to_owned()) })
    }

    fn within_limit(&self, more: &[u8]) -> Result<(), Error> {
        if self.line.len() + more.len() > self.limit { Err(Error::TooLarge(self.limit)) } else { Ok(()) }
    }
}

fn text(line: &[u8]) -> Result<&str, Error> {
    str::from_utf8(line).map_err(|_| Error::NotText)
}

#[cfg(test)]
mod tests;
