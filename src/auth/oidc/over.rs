//! The logins whose code was sent to an issuer: none of them counts again. Anybody can begin and finish logins that lead
//! nowhere, so only so many are known at once.

use std::collections::HashMap;

use crate::domain::Millis;

/// How many are known. Beyond that the one that would soonest be too old is forgotten: whoever has what its browser held
/// could send its code once more, which the issuer refuses.
const KEPT: usize = 10_000;

/// By their states, until when somebody would take them.
#[derive(Default)]
pub(super) struct Over(HashMap<String, Millis>);

impl Over {
    /// Whether a login is over for the first time.
    pub(super) fn record_first(&mut self, state: String, until: Millis, now: Millis) -> bool {
        if self.0.len() >= KEPT {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= KEPT && !self.0.contains_key(&state) {
            let oldest = self.0.iter().min_by_key(|(_, until)| **until).map(|(state, _)| state.clone());
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(state, until).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_logins_takes_no_more_room_and_keeps_nobody_out() {
        let mut over = Over::default();
        assert!((0..KEPT + 10).all(|n| over.record_first(n.to_string(), 600_000 + n as Millis, 0)));
        assert_eq!(over.0.len(), KEPT);
        assert!(!over.record_first((KEPT + 9).to_string(), 600_000, 0), "it was finished before");
        assert!(over.record_first("next".to_owned(), 2_000_000, 700_000), "those that are too old make room first");
        assert_eq!(over.0.len(), 1);
    }
}
