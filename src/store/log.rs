//! The log as it is stored. The observations of one commit are one entry, under the seq of the last one. So a commit costs
//! about the same however many observations it has, and their common members are written once.

use std::future::Future;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::columns::Columns;
use super::text::{damaged, legible};
use super::{Error, Result};
use crate::domain::Millis;
use crate::domain::facts::Fact;
use crate::domain::ids::{ItemId, ObservationId, RunId, ThreadId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType, Record, RecordMetadata, Recorded};

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

/// A part of every [`Store`](super::Store).
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

/// How many entries with a `RUN_STARTED` are read at once: most callers look for one of the last runs.
const RUN_START_PAGE: i64 = 8;

/// How many entries of a run are read first: most runs are short.
const FIRST_PAGE: i64 = 16;

/// How many entries are read at once.
const PAGE: i64 = 128;

/// Why a part of a log that was deleted while it was read has to be read again.
const SHORTENED: &str = "the log was shortened meanwhile; read it again";

/// An entry to be stored.
#[derive(Debug)]
pub struct NewEntry {
    /// The seq of its last observation.
    pub(crate) seq: i64,
    /// The types of its observations, each once. A search by type checks these before it reads the body.
    pub(crate) types: String,
    pub(crate) body: String,
}

/// An entry as the database returns it.
pub(crate) struct Entry {
    pub thread: ThreadId,
    /// Where the log begins.
    pub min_seq: i64,
    pub seq: i64,
    pub body: String,
}

impl Entry {
    pub fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            thread: row.name("thread_id")?.into(),
            min_seq: row.number("min_seq")?,
            seq: row.number("seq")?,
            body: row.text("body")?.to_owned(),
        })
    }
}

/// An entry's `body`. The members beside `observations` apply to each observation that has no such member of its own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryBody<C, M> {
    run_id: RunId,
    trace_id: String,
    timestamp: Millis,
    #[serde(rename = "told")]
    observations: Vec<StoredObservation<C, M>>,
}

/// The body for writing: facts are serialised here.
type WrittenEntry = EntryBody<Fact, RecordMetadata>;

/// The body for reading: contents stay JSON values, whatever their type.
type StoredEntry = EntryBody<Value, Value>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredObservation<C, M> {
    #[serde(rename = "type")]
    kind: ObservationType,
    id: ObservationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_id: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<Millis>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    title: String,
    content: C,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    metadata: Option<M>,
}

fn none<M>() -> Option<M> {
    None
}

/// The body for reading facts: each content is kept as text, and members that only clients need are skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryFacts<'b> {
    run_id: RunId,
    timestamp: Millis,
    #[serde(rename = "told", borrow)]
    observations: Vec<ObservationFact<'b>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObservationFact<'b> {
    #[serde(rename = "type")]
    kind: ObservationType,
    #[serde(default)]
    run_id: Option<RunId>,
    #[serde(default)]
    parent_id: Option<ItemId>,
    #[serde(default)]
    timestamp: Option<Millis>,
    #[serde(borrow)]
    content: &'b RawValue,
}

impl<'b> EntryFacts<'b> {
    /// Its observations of this run with their seqs, the last first. `seq` is the entry's.
    fn of_run(&self, run: &RunId, seq: i64) -> impl Iterator<Item = (&ObservationFact<'b>, i64)> {
        let numbered = self.observations.iter().rev().zip((0..=seq).rev());
        numbered.filter(move |(observation, _)| observation.run_id.as_ref().unwrap_or(&self.run_id) == run)
    }
}

impl ObservationFact<'_> {
    /// `None`: it cannot be read.
    fn recorded(&self, thread: &ThreadId, seq: i64, of_entry: Millis) -> Option<Recorded> {
        let fact = Fact::read(self.kind, self.content).inspect_err(|error| {
            tracing::error!(%error, threadId = %thread, seq, "an observation cannot be read and is left out");
        });
        Some(Recorded {
            thread_id: thread.clone(),
            seq,
            parent_id: self.parent_id.clone(),
            timestamp: self.timestamp.unwrap_or(of_entry),
            fact: fact.ok()?,
        })
    }
}

impl NewEntry {
    /// The entry of a commit's records, which are numbered from `before + 1`. `None` if there are none.
    pub(crate) fn of(records: Vec<Record>, before: i64) -> Option<Self> {
        let first = records.first()?;
        let mut body = WrittenEntry {
            run_id: first.run_id.clone(),
            trace_id: first.trace_id.clone(),
            timestamp: first.timestamp,
            observations: Vec::with_capacity(records.len()),
        };
        let seq = before + records.len() as i64;
        let types = types(records.iter().map(Record::kind));
        for record in records {
            let stored = body.stored(record);
            body.observations.push(stored);
        }
        Some(Self { seq, types, body: body.text() })
    }

    /// The entry of observations that were recorded elsewhere and keep their seqs. `None` if there are none.
    pub fn of_observations(seen: Vec<Observation>) -> Option<Self> {
        let first = seen.first()?;
        let mut body = StoredEntry {
            run_id: first.run_id.clone(),
            trace_id: first.trace_id.clone(),
            timestamp: first.timestamp,
            observations: Vec::with_capacity(seen.len()),
        };
        let (seq, types) = (seen.last()?.seq, types(seen.iter().map(|seen| seen.kind)));
        for seen in seen {
            let stored = StoredObservation {
                kind: seen.kind,
                id: seen.id,
                run_id: (seen.run_id != body.run_id).then_some(seen.run_id),
                parent_id: seen.parent_id,
                trace_id: (seen.trace_id != body.trace_id).then_some(seen.trace_id),
                timestamp: (seen.timestamp != body.timestamp).then_some(seen.timestamp),
                title: seen.title,
                content: seen.content,
                metadata: seen.metadata,
            };
            body.observations.push(stored);
        }
        Some(Self { seq, types, body: body.text() })
    }
}

impl<C: Serialize, M: Serialize> EntryBody<C, M> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and JSON values always have a text")
    }
}

fn types(kinds: impl Iterator<Item = ObservationType>) -> String {
    let mut types: Vec<&str> = Vec::new();
    for kind in kinds {
        if !types.contains(&kind.as_str()) {
            types.push(kind.as_str());
        }
    }
    types.join(" ")
}

impl WrittenEntry {
    fn stored(&self, record: Record) -> StoredObservation<Fact, RecordMetadata> {
        StoredObservation {
            kind: record.kind(),
            id: record.id,
            run_id: (record.run_id != self.run_id).then_some(record.run_id),
            parent_id: record.parent_id,
            trace_id: (record.trace_id != self.trace_id).then_some(record.trace_id),
            timestamp: (record.timestamp != self.timestamp).then_some(record.timestamp),
            title: record.title,
            content: record.fact,
            metadata: record.metadata,
        }
    }
}

impl StoredEntry {
    fn observations(self, thread: &ThreadId, last: i64) -> impl Iterator<Item = Observation> {
        let Self { run_id, trace_id, timestamp, observations } = self;
        let first = last + 1 - observations.len() as i64;
        observations.into_iter().zip(first..).map(move |(stored, seq)| Observation {
            seq,
            id: stored.id,
            thread_id: thread.clone(),
            run_id: stored.run_id.unwrap_or_else(|| run_id.clone()),
            parent_id: stored.parent_id,
            trace_id: stored.trace_id.unwrap_or_else(|| trace_id.clone()),
            timestamp: stored.timestamp.unwrap_or(timestamp),
            kind: stored.kind,
            title: stored.title,
            content: stored.content,
            metadata: stored.metadata,
        })
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
        for Entry { thread, seq, body, .. } in page {
            // An entry that cannot be read is skipped.
            let Some(body) = legible::<StoredEntry>("observation", &body) else {
                after = seq;
                continue;
            };
            if body.observations.is_empty() {
                return Err(damaged("observation", "an entry without any"));
            }
            found.extend(body.observations(&thread, seq).filter(|observation| ask.is_met_by(observation)));
            after = seq;
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
        for Entry { seq, body, .. } in page {
            before = seq;
            let Some(body) = legible::<EntryFacts>("observation", &body) else { continue };
            let is_it = |(told, _): &(&ObservationFact, i64)| told.kind == ObservationType::RunStarted;
            if let Some((_, began)) = body.of_run(run, seq).find(is_it) {
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
        for Entry { thread, seq, body, .. } in page {
            until = seq - 1;
            let Some(body) = legible::<EntryFacts>("observation", &body) else { continue };
            for (observation, seq) in body.of_run(run, seq) {
                found.extend(observation.recorded(&thread, seq, body.timestamp));
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

#[cfg(test)]
mod tests;
