//! JSON documents, one a line, out of bytes that were split anywhere. Pure; what it holds is bounded.

use super::sse::Error;

#[derive(Debug)]
pub(crate) struct Lines {
    line: Vec<u8>,
    limit: usize,
}

impl Lines {
    /// `limit` bounds one line.
    pub(crate) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), limit }
    }

    /// Takes the next bytes; complete lines are appended to `lines`, empty ones left out.
    pub(crate) fn push(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) -> Result<(), Error> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.hold(&bytes[..end])?;
            lines.extend(self.line_ended()?);
            bytes = &bytes[end + 1..];
        }
        self.hold(bytes)
    }

    /// The line that was under way when the stream ended, if any.
    pub(crate) fn finish(mut self) -> Result<Option<String>, Error> {
        self.line_ended()
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(Error::TooLarge(self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line_ended(&mut self) -> Result<Option<String>, Error> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| Error::NotText)?;
        Ok(if line.trim().is_empty() { None } else { Some(line) })
    }
}

#[cfg(test)]
mod tests;
