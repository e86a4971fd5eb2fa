//! The log as it is stored: the observations of one commit are one entry, under the seq of the last one. So a commit
//! costs about the same however many observations it has, and what its observations share is written once.

use std::future::Future;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Result;
use super::columns::Columns;
use super::text::{damaged, legible};
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
    /// As recorded: payload references and shortened plans are still in them.
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>>;

    /// What is recorded of the run, from its `RUN_STARTED` up to this number; one that cannot be read is left out. Looked for
    /// from that number backwards, so that what happened before the run costs nothing. Empty, where it has not begun, or the
    /// log is shortened behind its beginning.
    async fn facts(&self, pk: ThreadPk, run: &RunId, until: i64) -> Result<Vec<Recorded>>;

    /// The seq of the run's `RUN_STARTED`. Looked for from the end of the log, so that what happened before the run costs
    /// nothing. `None`: it has not begun, or the log is shortened behind it.
    async fn run_began(&self, pk: ThreadPk, run: &RunId) -> Result<Option<i64>>;
}

/// Entries with a `RUN_STARTED` that are read at once: most who ask mean one of the last runs.
const BEGINNINGS: i64 = 8;

/// The same of a run that may be as short as most.
const FIRST_PAGE: i64 = 16;

/// How many entries are read at once.
const PAGE: i64 = 128;

/// An entry on its way into a database.
#[derive(Debug)]
pub struct NewEntry {
    /// Of its last observation.
    pub(crate) seq: i64,
    /// The types of its observations, each once: what a search looks at before it reads the body.
    pub(crate) types: String,
    pub(crate) body: String,
}

/// An entry as a database gives it back.
pub(crate) struct Entry {
    pub thread: ThreadId,
    pub seq: i64,
    pub body: String,
}

impl Entry {
    pub fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { thread: row.name("thread_id")?.into(), seq: row.number("seq")?, body: row.text("body")?.to_owned() })
    }
}

/// An entry's `body`. The members beside `observations` hold for each of them that has no such member of its own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<C, M> {
    run_id: RunId,
    trace_id: String,
    timestamp: Millis,
    #[serde(rename = "told")]
    observations: Vec<StoredObservation<C, M>>,
}

/// As it is written: facts are serialised here.
type Written = Body<Fact, RecordMetadata>;

/// As it is read: readers pass contents on as they are.
type Stored = Body<Value, Value>;

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

/// As its facts are read: each content as its text, and nothing of what only readers outside are told.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Skimmed<'b> {
    run_id: RunId,
    timestamp: Millis,
    #[serde(rename = "told", borrow)]
    observations: Vec<SkimmedObservation<'b>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkimmedObservation<'b> {
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

impl<'b> Skimmed<'b> {
    /// Its observations that are of this run, with their numbers, the last first. `seq` is the entry's.
    fn of_run(&self, run: &RunId, seq: i64) -> impl Iterator<Item = (&SkimmedObservation<'b>, i64)> {
        let numbered = self.observations.iter().rev().zip((0..=seq).rev());
        numbered.filter(move |(observation, _)| observation.run_id.as_ref().unwrap_or(&self.run_id) == run)
    }
}

impl SkimmedObservation<'_> {
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
    /// Of a commit's records, the first of which is numbered after `before`; `None` if it has none.
    pub(crate) fn of(records: Vec<Record>, before: i64) -> Option<Self> {
        let first = records.first()?;
        let mut body = Written {
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

    /// Of observations that were recorded elsewhere, with the numbers that they have; `None` if there are none.
    pub fn of_observations(seen: Vec<Observation>) -> Option<Self> {
        let first = seen.first()?;
        let mut body = Stored {
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

impl<C: Serialize, M: Serialize> Body<C, M> {
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

impl Written {
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

impl Stored {
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

/// The observations asked for. `entries` gives so many entries after a number, in their order; it may leave out some that
/// hold nothing asked for, and none else.
pub(crate) async fn observations<F>(ask: &ObservationAsk, entries: impl Fn(i64, i64) -> F) -> Result<Vec<Observation>>
where
    F: Future<Output = Result<Vec<Entry>>>,
{
    let (limit, until) = (ask.limit as usize, ask.until.unwrap_or(i64::MAX));
    let (mut found, mut after) = (Vec::new(), ask.after);
    while found.len() < limit && after < until {
        // Every entry holds one observation at least.
        let wanted = PAGE.min(until - after).min((limit - found.len()) as i64);
        let page = entries(after, wanted).await?;
        let is_last = (page.len() as i64) < wanted;
        for Entry { thread, seq, body } in page {
            // The log goes on behind an entry that cannot be read.
            let Some(body) = legible::<Stored>("observation", &body) else {
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

/// Where the run began. `entries` gives so many entries before a number that hold the beginning of some run, the last first.
pub(crate) async fn run_began<F>(run: &RunId, entries: impl Fn(i64, i64) -> F) -> Result<Option<i64>>
where
    F: Future<Output = Result<Vec<Entry>>>,
{
    let mut before = i64::MAX;
    loop {
        let page = entries(before, BEGINNINGS).await?;
        let is_last = (page.len() as i64) < BEGINNINGS;
        for Entry { seq, body, .. } in page {
            before = seq;
            let Some(body) = legible::<Skimmed>("observation", &body) else { continue };
            let is_it = |(told, _): &(&SkimmedObservation, i64)| told.kind == ObservationType::RunStarted;
            if let Some((_, began)) = body.of_run(run, seq).find(is_it) {
                return Ok(Some(began));
            }
        }
        if is_last {
            return Ok(None);
        }
    }
}

/// What is recorded of the run. `entries` gives so many entries up to a number, the last first.
pub(crate) async fn facts<F>(run: &RunId, until: i64, entries: impl Fn(i64, i64) -> F) -> Result<Vec<Recorded>>
where
    F: Future<Output = Result<Vec<Entry>>>,
{
    let (mut found, mut until, mut wanted) = (Vec::new(), until, FIRST_PAGE);
    loop {
        let page = entries(until, wanted).await?;
        let is_last = (page.len() as i64) < wanted;
        for Entry { thread, seq, body } in page {
            until = seq - 1;
            let Some(body) = legible::<Skimmed>("observation", &body) else { continue };
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
    /// Whether it is one of those asked for, whatever their number.
    pub(crate) fn is_met_by(&self, observation: &Observation) -> bool {
        observation.seq > self.after
            && self.until.is_none_or(|until| observation.seq <= until)
            && (self.types.is_empty() || self.types.contains(&observation.kind))
    }
}
