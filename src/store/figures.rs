//! What is open, for those who watch the server.

use super::{Result, text};
use crate::domain::Millis;
use crate::domain::hitl::SuspensionKind;
use crate::domain::run::RunStatus;

/// Counts over all tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Runs that are not over.
    pub runs: Vec<(RunStatus, u64)>,
    pub questions: Vec<OpenQuestions>,
    /// What waits in the outbox, and since when the oldest of it is due.
    pub deliveries: u64,
    pub oldest_due: Option<Millis>,
}

/// Open suspensions of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestions {
    pub kind: SuspensionKind,
    pub count: u64,
    /// When the oldest was asked.
    pub since: Millis,
}

impl Figures {
    pub(super) fn run(&mut self, status: &str, count: i64) -> Result<()> {
        self.runs.push((text::word(status)?, count.unsigned_abs()));
        Ok(())
    }

    pub(super) fn question(&mut self, kind: &str, count: i64, since: Millis) -> Result<()> {
        self.questions.push(OpenQuestions { kind: text::word(kind)?, count: count.unsigned_abs(), since });
        Ok(())
    }
}
