//! How large a reply is: what it says counts, not the envelopes that it comes in, one for every token.

use super::http::failure;
use crate::domain::model::{Delta, FailureKind, ModelFailure};

/// What may stand around the words of one event without counting.
const ENVELOPE: usize = 1024;
/// Text outside ASCII may come escaped, three times as long.
const ESCAPED: usize = 3;

/// Counts a reply while it is read. What says nothing (comments, pings, signatures) counts as it came, so a stream that
/// never says anything ends, too.
#[derive(Debug)]
pub(super) struct Size {
    limit: usize,
    counted: usize,
    /// Bytes of the event that is under way.
    pending: usize,
}

impl Size {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, counted: 0, pending: 0 }
    }

    /// The most that one event, or a reply in one document, can be long.
    pub(super) fn of_event(limit: usize) -> usize {
        limit.saturating_mul(ESCAPED).saturating_add(ENVELOPE)
    }

    /// These bytes came, of an event that is not complete yet.
    pub(super) fn came(&mut self, bytes: usize) -> Result<(), ModelFailure> {
        self.pending += bytes;
        self.check(self.pending.saturating_sub(Self::of_event(self.limit)))
    }

    /// The event is complete, and said what stands from there on; it is taken back if it is too much.
    pub(super) fn count_event(&mut self, deltas: &mut Vec<Delta>, from: usize) -> Result<(), ModelFailure> {
        let (words, came) = (deltas[from..].iter().map(Delta::size).sum::<usize>(), std::mem::take(&mut self.pending));
        self.counted += match words {
            0 => came,
            words => words + came.saturating_sub(words * ESCAPED + ENVELOPE),
        };
        self.check(0).inspect_err(|_| deltas.truncate(from))
    }

    /// It must fail again: nobody repeats it.
    fn check(&self, more: usize) -> Result<(), ModelFailure> {
        let most = self.limit;
        let too_large = || failure(FailureKind::TooLarge, format!("the reply is larger than {most} bytes"));
        if self.counted + more > most { Err(too_large()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
