//! Counts of what is open (runs, questions, deliveries), for metrics.

use async_trait::async_trait;

use super::columns::Columns;
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

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait FigureStore: Send + Sync + 'static {
    /// What of all tenants is open: read by index, however much there is that is over.
    async fn figures(&self) -> Result<Figures>;
}

impl Figures {
    /// Of three queries: `word, count` of runs, `word, count, since` of suspensions, `count, since` of deliveries.
    pub(crate) fn read<R: Columns>(runs: &[R], questions: &[R], deliveries: &R) -> Result<Self> {
        let run = |row: &R| Ok((text::word(row.text("word")?)?, row.count("count")?));
        let question = |row: &R| {
            let kind = text::word(row.text("word")?)?;
            Ok(OpenQuestions { kind, count: row.count("count")?, since: row.number("since")? })
        };
        Ok(Self {
            runs: runs.iter().map(run).collect::<Result<_>>()?,
            questions: questions.iter().map(question).collect::<Result<_>>()?,
            deliveries: deliveries.count("count")?,
            oldest_due: deliveries.number_or_none("since")?,
        })
    }
}
