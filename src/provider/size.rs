//! Limits the size of a reply. Only its content counts, not the JSON around it, which is repeated for every token.

use super::http::failure;
use crate::domain::model::{Delta, FailureKind, ModelFailure};

/// How many bytes around the content of one event are free.
const FREE_BYTES_PER_EVENT: usize = 1024;
/// Text outside ASCII may be escaped, which makes it up to three times as long.
const MAX_ESCAPE_FACTOR: usize = 3;

/// Counts a reply while it is read. Events without content (comments, pings, signatures) count with their full size, so
/// that a stream without content is limited, too.
#[derive(Debug)]
pub(super) struct ReplySize {
    limit: usize,
    counted: usize,
    /// Bytes of the current, incomplete event.
    pending: usize,
}

impl ReplySize {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, counted: 0, pending: 0 }
    }

    /// Maximum size of one event, or of a reply in one document.
    pub(super) fn max_event_bytes(limit: usize) -> usize {
        limit.saturating_mul(MAX_ESCAPE_FACTOR).saturating_add(FREE_BYTES_PER_EVENT)
    }

    /// Adds bytes of an event that is not complete yet.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), ModelFailure> {
        self.pending += bytes;
        self.check(self.pending.saturating_sub(Self::max_event_bytes(self.limit)))
    }

    /// Counts a complete event, whose deltas start at `from`; they are removed if the limit is exceeded.
    pub(super) fn count_event(&mut self, deltas: &mut Vec<Delta>, from: usize) -> Result<(), ModelFailure> {
        let (content, received) =
            (deltas[from..].iter().map(Delta::size).sum::<usize>(), std::mem::take(&mut self.pending));
        self.counted += match content {
            0 => received,
            content => content + received.saturating_sub(content * MAX_ESCAPE_FACTOR + FREE_BYTES_PER_EVENT),
        };
        self.check(0).inspect_err(|_| deltas.truncate(from))
    }

    /// This failure is permanent: the call is not repeated.
    fn check(&self, more: usize) -> Result<(), ModelFailure> {
        let most = self.limit;
        let too_large = || failure(FailureKind::TooLarge, format!("the reply is larger than {most} bytes"));
        if self.counted + more > most { Err(too_large()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
