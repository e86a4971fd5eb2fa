//! What one judgement, or reading the rules of one scope, may cost.

use std::cell::Cell;

/// How many steps it may take, a byte compared being one; so it ends within some tens of milliseconds. What is asked when
/// they are used up is in doubt.
pub const MOST_STEPS: usize = 32 * 1024 * 1024;

/// The steps that are left.
pub(super) struct Steps(Cell<usize>);

impl Steps {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST_STEPS))
    }

    /// Takes so many, if so many are left.
    pub(super) fn take(&self, steps: usize) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
    }
}
