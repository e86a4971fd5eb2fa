//! The cost limit of one judgement, or of compiling the rules of one scope.

use std::cell::Cell;

/// How many steps one judgement may take; comparing a byte is one step. This limits it to some tens of milliseconds.
/// Conditions that are evaluated after the limit are in doubt.
pub const MAX_STEPS: usize = 32 * 1024 * 1024;

/// The remaining steps.
pub(super) struct StepBudget(Cell<usize>);

impl StepBudget {
    pub(super) fn new() -> Self {
        Self(Cell::new(MAX_STEPS))
    }

    /// Consumes `steps`, if that many remain.
    pub(super) fn take(&self, steps: usize) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
    }
}
