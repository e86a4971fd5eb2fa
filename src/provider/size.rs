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
    pub(super) fn said(&mut self, deltas: &mut Vec<Delta>, from: usize) -> Result<(), ModelFailure> {
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
mod tests {
    use super::*;

    fn text(length: usize) -> Vec<Delta> {
        vec![Delta::Text("x".repeat(length))]
    }

    /// How many events of that many bytes pass, each of which says this.
    fn passes(limit: usize, event: usize, deltas: &[Delta]) -> usize {
        let mut size = Size::new(limit);
        (0..100_000).take_while(|_| size.came(event).and_then(|()| size.said(&mut deltas.to_vec(), 0)).is_ok()).count()
    }

    #[test]
    fn words_count_and_their_envelopes_do_not() {
        assert_eq!(passes(1_000, 250, &text(1)), 1_000, "a token a chunk");
        assert_eq!(passes(1_000, 250, &text(4)), 250);
        assert_eq!(passes(1_000, 3_000, &text(1_000)), 1, "all of it, escaped, in one");
        assert_eq!(passes(1_000, 1_001, &text(1_001)), 0);
    }

    #[test]
    fn what_says_nothing_counts_as_it_came() {
        assert_eq!(passes(1_000, 16, &[]), 62, "pings");
        assert_eq!(passes(1_000, 16, &[Delta::Usage(Default::default())]), 62);
        assert_eq!(passes(10_000, 2_029, &text(1)), 9, "a token and two kilobytes beside it");
        let mut size = Size::new(1_000);
        assert!(size.came(4_024).is_ok() && size.came(1_001).is_err(), "an event without end");
    }
}
