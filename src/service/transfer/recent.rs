//! The exports whose audit line was stored a short while ago.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};

/// How long the same export by the same caller adds no other line.
const INTERVAL: Millis = 15 * 60_000;

/// How many are known at a time. Of more than that, lines are stored again.
const MAX_KNOWN: usize = 10_000;

/// Who exported what: two exports with the same `last_seq` have the same log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExportKey {
    pub tenant: TenantPk,
    pub by: String,
    pub thread: ThreadPk,
    pub last_seq: i64,
}

/// When a line about each was stored. An export needs only `read`, and each line is kept for years, so a loop of exports
/// must not fill the audit.
#[derive(Default)]
pub(in crate::service) struct RecentExports(Mutex<HashMap<ExportKey, Millis>>);

impl RecentExports {
    /// Whether a line was stored about the same export not long ago.
    pub(super) fn contains(&self, export: &ExportKey, now: Millis) -> bool {
        self.0.lock().get(export).is_some_and(|at| is_recent(*at, now))
    }

    /// A line about this export was stored.
    pub(super) fn add(&self, export: ExportKey, now: Millis) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, at| is_recent(*at, now));
        }
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(export, now);
    }
}

fn is_recent(at: Millis, now: Millis) -> bool {
    (0..INTERVAL).contains(&(now - at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_export_is_known_for_a_quarter_of_an_hour() {
        let recent = RecentExports::default();
        let export = ExportKey { tenant: TenantPk(1), by: "ann".to_owned(), thread: ThreadPk(1), last_seq: 5 };
        assert!(!recent.contains(&export, 0));
        recent.add(export.clone(), 0);
        assert!(recent.contains(&export, INTERVAL - 1) && !recent.contains(&export, INTERVAL));
        assert!(!recent.contains(&export, -1), "the clock was set back");
        for other in [
            ExportKey { tenant: TenantPk(2), ..export.clone() },
            ExportKey { by: "bob".to_owned(), ..export.clone() },
            ExportKey { thread: ThreadPk(2), ..export.clone() },
            ExportKey { last_seq: 6, ..export.clone() },
        ] {
            assert!(!recent.contains(&other, 1), "{other:?}");
        }
    }
}
