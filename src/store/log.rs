//! The log as it is stored. The observations of one commit are one entry, under the seq of the last one. So a commit costs
//! about the same however many observations it has.

mod compressed;
mod entry;
#[cfg(test)]
mod tests;

use std::future::Future;

use async_trait::async_trait;

use self::entry::{EntryFacts, ObservationFact, StoredEntry};
use super::migrations::COMPRESSED_LOG;
use super::text::damaged;
use super::{Error, Result};
use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType, Recorded};

pub use self::entry::NewEntry;
pub(crate) use self::entry::{Entry, LogFormat, old_entry, words_and_letters};

/// Which observations to read; ordered by seq.
#[derive(Clone, Debug, Default)]
pub struct ObservationAsk {
    /// Only seq greater than this.
    pub after: i64,
    /// Only seq up to this, if given.
    pub until: Option<i64>,
    pub limit: u32,
    /// Empty = all.
    pub types: Vec<ObservationType>,
}

/// What is read of the log. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait LogStore: Send + Sync + 'static {
    /// Observations as recorded: with payload references and abbreviated plans.
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>>;

    /// The facts of the run, from its `RUN_STARTED` up to `until`; one that cannot be read is left out. Scans backwards from
    /// that seq, so that the log before the run costs nothing. Empty if the run has not begun, or its beginning was
    /// deleted.
    async fn facts(&self, pk: ThreadPk, run: &RunId, until: i64) -> Result<Vec<Recorded>>;

    /// The seq of the run's `RUN_STARTED`. Scans backwards from the end of the log, so that the log before the run costs
    /// nothing. `None`: the run has not begun, or its beginning was deleted.
    async fn run_began(&self, pk: ThreadPk, run: &RunId) -> Result<Option<i64>>;
}

/// How the log is written. A part of every [`Store`](super::Store).
#[async_trait]
pub trait LogCompression: Send + Sync + 'static {
    /// From now on this process writes its entries compressed; it reads both forms anyway. Programs that do not know the
    /// compressed form can never use the database again.
    async fn compress_log(&self) -> Result<()>;

    /// As [`compress_log`](Self::compress_log), if the database has no threads yet and no other process is registered, or
    /// if programs that do not know the compressed form cannot use it anyway. Called before this process registers.
    async fn compress_new_log(&self) -> Result<()>;
}

/// How many entries with a `RUN_STARTED` are read at once: most callers look for one of the last runs.
const RUN_START_PAGE: i64 = 8;

/// How many entries of a run are read first: most runs are short.
const FIRST_PAGE: i64 = 16;

/// How many entries are read at once.
const PAGE: i64 = 128;

/// Why a part of a log that was deleted while it was read has to be read again.
const SHORTENED: &str = "the log was shortened meanwhile; read it again";

/// Says once that older programs cannot use the database any more.
pub(crate) fn tell_raised(is_raised: bool) {
    if is_raised {
        tracing::warn!(
            schema = COMPRESSED_LOG,
            "the log is written compressed from now on (store.compress_log): older programs cannot use this database any more"
        );
    }
}

/// The requested observations. `entries` returns entries after a seq, up to a limit, in order. It may leave out entries
/// without a requested observation, and no others. `min_seq` returns where the log begins. `Unavailable` if the log was
/// shortened between two calls of `entries`: a gap in the middle looks like an entry that cannot be read, and one up to the
/// end like the end. A gap at the beginning is left to the caller, and so is a thread that was deleted meanwhile.
pub(crate) async fn observations<F, M>(
    ask: &ObservationAsk,
    entries: impl Fn(i64, i64) -> F,
    min_seq: impl Fn() -> M,
) -> Result<Vec<Observation>>
where
    F: Future<Output = Result<Vec<Entry>>>,
    M: Future<Output = Result<Option<i64>>>,
{
    let (limit, until) = (ask.limit as usize, ask.until.unwrap_or(i64::MAX));
    let (mut found, mut after) = (Vec::new(), ask.after);
    while found.len() < limit && after < until {
        // Every entry has at least one observation.
        let wanted = PAGE.min(until - after).min((limit - found.len()) as i64);
        let page = entries(after, wanted).await?;
        let is_last = (page.len() as i64) < wanted;
        if after > ask.after {
            let first = page.first().map(|first| first.min_seq);
            let begins = if first.is_some() { first } else { min_seq().await? };
            if begins.is_some_and(|begins| begins > after + 1) {
                return Err(Error::Unavailable(SHORTENED.to_owned()));
            }
        }
        for entry in page {
            after = entry.seq;
            let Some(body) = entry.parsed::<StoredEntry>() else { continue };
            if body.observations.is_empty() {
                return Err(damaged("observation", "an entry without any"));
            }
            found.extend(body.observations(&entry.thread, entry.seq).filter(|observation| ask.is_met_by(observation)));
        }
        if is_last {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The seq at which the run began. `entries` returns entries before a seq, up to a limit, that contain a `RUN_STARTED`, the
/// last first.
pub(crate) async fn run_began<F>(run: &RunId, entries: impl Fn(i64, i64) -> F) -> Result<Option<i64>>
where
    F: Future<Output = Result<Vec<Entry>>>,
{
    let mut before = i64::MAX;
    loop {
        let page = entries(before, RUN_START_PAGE).await?;
        let is_last = (page.len() as i64) < RUN_START_PAGE;
        for entry in page {
            before = entry.seq;
            let Some(body) = entry.parsed::<EntryFacts>() else { continue };
            let is_it = |(told, _): &(&ObservationFact, i64)| told.kind == ObservationType::RunStarted;
            if let Some((_, began)) = body.of_run(run, entry.seq).find(is_it) {
                return Ok(Some(began));
            }
        }
        if is_last {
            return Ok(None);
        }
    }
}

/// The facts of the run. `entries` returns entries up to a seq, up to a limit, the last first.
pub(crate) async fn facts<F>(run: &RunId, until: i64, entries: impl Fn(i64, i64) -> F) -> Result<Vec<Recorded>>
where
    F: Future<Output = Result<Vec<Entry>>>,
{
    let (mut found, mut until, mut wanted) = (Vec::new(), until, FIRST_PAGE);
    loop {
        let page = entries(until, wanted).await?;
        let is_last = (page.len() as i64) < wanted;
        for entry in page {
            until = entry.seq - 1;
            let Some(body) = entry.parsed::<EntryFacts>() else { continue };
            for (observation, seq) in body.of_run(run, entry.seq) {
                found.extend(observation.recorded(&entry.thread, seq, body.timestamp));
                if observation.kind == ObservationType::RunStarted {
                    found.reverse();
                    return Ok(found);
                }
            }
        }
        if is_last {
            return Ok(Vec::new());
        }
        wanted = PAGE;
    }
}

impl ObservationAsk {
    /// Whether the observation is requested, apart from the limit.
    pub(crate) fn is_met_by(&self, observation: &Observation) -> bool {
        observation.seq > self.after
            && self.until.is_none_or(|until| observation.seq <= until)
            && (self.types.is_empty() || self.types.contains(&observation.kind))
    }
}
