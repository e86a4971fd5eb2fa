//! One argument of a call as conditions see it. Each derived form is computed once, and within bounds.

use std::cell::OnceCell;

use serde_json::Value;

use super::host::{self, Host};
use super::steps::StepBudget;
use super::{email, normal};

/// The largest argument that conditions examine: the bytes of its texts, plus 16 for each value in it. Larger ones are
/// in doubt.
pub const MAX_EXAMINED: usize = 64 * 1024;

/// Steps per byte that is parsed as a host or an email address.
const STEPS_PER_PARSED_BYTE: usize = 256;

/// The value at a condition's pointer, with its derived forms.
pub(super) struct Argument<'v> {
    value: &'v Value,
    size: OnceCell<Option<usize>>,
    folded: OnceCell<Option<Folded>>,
    domains: OnceCell<Option<Vec<Host>>>,
    hosts: OnceCell<Option<Vec<Host>>>,
}

/// The value after normalisation, as people would read it.
pub(super) struct Folded {
    pub(super) value: Value,
    /// The lines of a text that has several; otherwise one empty line.
    pub(super) lines: Vec<String>,
}

impl<'v> Argument<'v> {
    pub(super) fn new(value: &'v Value) -> Self {
        Self { value, size: OnceCell::new(), folded: OnceCell::new(), domains: OnceCell::new(), hosts: OnceCell::new() }
    }

    /// The value as it is and its size, unless it is too large.
    pub(super) fn exact(&self, steps: &StepBudget) -> Option<(&'v Value, usize)> {
        let measure = || {
            steps.take(1)?;
            let size = normal::size(self.value, MAX_EXAMINED);
            steps.take(size.unwrap_or(MAX_EXAMINED))?;
            size
        };
        Some((self.value, (*self.size.get_or_init(measure))?))
    }

    /// The value with its texts normalised.
    pub(super) fn folded(&self, steps: &StepBudget) -> Option<&Folded> {
        let fold = || {
            let (value, _) = self.exact(steps)?;
            let text = value.as_str().filter(|text| text.contains(normal::is_line_break)).unwrap_or_default();
            let lines = text.split(normal::is_line_break).map(|line| normal::fold(line, steps));
            Some(Folded { lines: lines.collect::<Option<_>>()?, value: normal::fold_all(value, steps)? })
        };
        self.folded.get_or_init(fold).as_ref()
    }

    /// The domains of the email addresses in the value; `None`: some part of it is not certainly one address.
    pub(super) fn domains(&self, steps: &StepBudget) -> Option<&[Host]> {
        self.domains.get_or_init(|| self.readable(steps).and_then(email::domains)).as_deref()
    }

    /// The hosts in the value; `None`: some part of it is not certainly one host.
    pub(super) fn hosts(&self, steps: &StepBudget) -> Option<&[Host]> {
        self.hosts.get_or_init(|| self.readable(steps).and_then(host::all)).as_deref()
    }

    fn readable(&self, steps: &StepBudget) -> Option<&'v Value> {
        let (value, size) = self.exact(steps)?;
        steps.take(size * STEPS_PER_PARSED_BYTE)?;
        Some(value)
    }
}
