//! One argument of a call as conditions look at it: each reading of it is made once, and within bounds.

use std::cell::OnceCell;

use serde_json::Value;

use super::host::{self, Host};
use super::steps::Steps;
use super::{email, normal};

/// The largest argument that conditions look into: its texts in bytes, and 16 for each value in it. What is larger is in
/// doubt.
pub const MOST_EXAMINED: usize = 64 * 1024;

/// Steps for a byte that is read as a host or an address.
const STEPS_TO_READ: usize = 256;

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
    /// Each line of a text that has several; else nothing but an empty one.
    pub(super) lines: Vec<String>,
}

impl<'v> Argument<'v> {
    pub(super) fn new(value: &'v Value) -> Self {
        Self { value, size: OnceCell::new(), folded: OnceCell::new(), domains: OnceCell::new(), hosts: OnceCell::new() }
    }

    /// The value as it is and its size, unless it is too large.
    pub(super) fn exact(&self, steps: &Steps) -> Option<(&'v Value, usize)> {
        let measure = || {
            steps.take(1)?;
            let size = normal::size(self.value, MOST_EXAMINED);
            steps.take(size.unwrap_or(MOST_EXAMINED))?;
            size
        };
        Some((self.value, (*self.size.get_or_init(measure))?))
    }

    /// The value with its texts normalised.
    pub(super) fn folded(&self, steps: &Steps) -> Option<&Folded> {
        let fold = || {
            let (value, _) = self.exact(steps)?;
            let text = value.as_str().filter(|text| text.contains(normal::is_line_break)).unwrap_or_default();
            let lines = text.split(normal::is_line_break).map(|line| normal::fold(line, steps));
            Some(Folded { lines: lines.collect::<Option<_>>()?, value: normal::fold_all(value, steps)? })
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
        steps.take(size * STEPS_TO_READ)?;
        Some(value)
    }
}
