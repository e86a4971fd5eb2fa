//! Logins whose code was sent to an issuer: each may be completed only once. Anybody can start and complete logins, so
//! their number is bounded.

use std::collections::HashMap;

use crate::domain::Millis;

/// How many are stored. Beyond that the one that expires first is dropped. Its code could then be sent a second time,
/// which the issuer rejects.
const MAX_LOGINS: usize = 10_000;

/// By state, until when the login would be accepted.
#[derive(Default)]
pub(super) struct UsedLogins(HashMap<String, Millis>);

impl UsedLogins {
    /// Records a login; returns whether it is the first time.
    pub(super) fn record_first(&mut self, state: String, until: Millis, now: Millis) -> bool {
        if self.0.len() >= MAX_LOGINS {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= MAX_LOGINS && !self.0.contains_key(&state) {
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
        let mut over = UsedLogins::default();
        assert!((0..MAX_LOGINS + 10).all(|n| over.record_first(n.to_string(), 600_000 + n as Millis, 0)));
        assert_eq!(over.0.len(), MAX_LOGINS);
        assert!(!over.record_first((MAX_LOGINS + 9).to_string(), 600_000, 0), "it was finished before");
        assert!(over.record_first("next".to_owned(), 2_000_000, 700_000), "those that are too old make room first");
        assert_eq!(over.0.len(), 1);
    }
}
