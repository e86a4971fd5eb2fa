//! One argument of a call as conditions look at it: each reading of it is made once, and within bounds.

use std::cell::{Cell, OnceCell};

use serde_json::Value;

use super::host::{self, Host};
use super::{email, normal};

/// The largest argument that conditions look into: its texts in bytes, and 16 for each value in it. What is larger is in
/// doubt.
pub const MOST_EXAMINED: usize = 64 * 1024;

/// How many steps one judgement may take, a byte compared being one. What is asked when they are used up is in doubt.
pub const MOST_STEPS: usize = 32 * 1024 * 1024;

/// Steps for a byte that is normalised, or read as a host or an address.
const STEPS_TO_READ: usize = 32;

/// The steps that are left of one judgement.
pub(super) struct Steps(Cell<usize>);

/// What stands at a pointer.
pub(super) struct Argument<'v> {
    value: &'v Value,
    size: OnceCell<Option<usize>>,
    folded: OnceCell<Option<Folded>>,
    domains: OnceCell<Option<Vec<Host>>>,
    hosts: OnceCell<Option<Vec<Host>>>,
}

/// A value as people read it.
pub(super) struct Folded {
    pub(super) value: Value,
    /// Each line of a text that has several.
    pub(super) lines: Vec<String>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST_STEPS))
    }

    /// Whether so many are left, and then they are taken.
    pub(super) fn take(&self, steps: usize) -> bool {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl<'v> Argument<'v> {
    pub(super) fn new(value: &'v Value) -> Self {
        Self { value, size: OnceCell::new(), folded: OnceCell::new(), domains: OnceCell::new(), hosts: OnceCell::new() }
    }

    /// The value as it is and its size, unless it is too large.
    pub(super) fn exact(&self, steps: &Steps) -> Option<(&'v Value, usize)> {
        let measure = || {
            if !steps.take(1) {
                return None;
            }
            let size = normal::size(self.value, MOST_EXAMINED);
            if steps.take(size.unwrap_or(MOST_EXAMINED)) { size } else { None }
        };
        Some((self.value, (*self.size.get_or_init(measure))?))
    }

    /// The value with its texts normalised.
    pub(super) fn folded(&self, steps: &Steps) -> Option<&Folded> {
        let fold = || {
            self.readable(steps)?;
            let text = self.value.as_str().filter(|text| text.contains(normal::is_line_break));
            let lines = text.map(|text| text.split(normal::is_line_break).map(normal::fold).collect());
            Some(Folded { value: normal::fold_all(self.value), lines: lines.unwrap_or_default() })
        };
        self.folded.get_or_init(fold).as_ref()
    }

    /// The domains of the addresses that stand here; `None`: something here is not certainly one address.
    pub(super) fn domains(&self, steps: &Steps) -> Option<&[Host]> {
        self.domains.get_or_init(|| self.readable(steps).and_then(email::domains)).as_deref()
    }

    /// The hosts that stand here; `None`: something here is not certainly one host.
    pub(super) fn hosts(&self, steps: &Steps) -> Option<&[Host]> {
        self.hosts.get_or_init(|| self.readable(steps).and_then(host::all)).as_deref()
    }

    fn readable(&self, steps: &Steps) -> Option<&'v Value> {
        let (value, size) = self.exact(steps)?;
        steps.take(size * STEPS_TO_READ).then_some(value)
    }
}
