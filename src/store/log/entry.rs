//! An entry as it is stored: the observations of one commit as JSON, or the same compressed. Their common members are
//! written once.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::compressed::{compressed, decompressed};
use crate::domain::Millis;
use crate::domain::facts::Fact;
use crate::domain::ids::{ItemId, ObservationId, RunId, ThreadId};
use crate::domain::observation::{Observation, ObservationType, Record, RecordMetadata, Recorded};
use crate::store::columns::Columns;
use crate::store::text::legible;
use crate::store::{Error, Result};

/// An entry to be stored.
#[derive(Debug)]
pub struct NewEntry {
    /// The seq of its last observation.
    pub(crate) seq: i64,
    /// The types of its observations, each once: as words, or as letters if it is compressed. A search by type checks these
    /// before it reads the body.
    pub(crate) types: String,
    /// If it is compressed, only its time, which figures are read from.
    pub(crate) body: String,
    pub(crate) compressed: Option<Vec<u8>>,
    timestamp: Millis,
}

/// How the log is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Json,
    Compressed,
}

/// An entry as the database returns it.
pub(crate) struct Entry {
    pub thread: ThreadId,
    /// Where the log begins.
    pub min_seq: i64,
    pub seq: i64,
    /// `None`: it cannot be decompressed.
    pub body: Option<String>,
}

impl Entry {
    pub fn read(row: &impl Columns) -> Result<Self> {
        let seq = row.number("seq")?;
        let body = match row.bytes_or_none("compressed")? {
            Some(compressed) => legible_text(compressed, seq),
            None => Some(row.text("body")?.to_owned()),
        };
        Ok(Self { thread: row.name("thread_id")?.into(), min_seq: row.number("min_seq")?, seq, body })
    }

    /// The observations of the entry. `None`: they cannot be read, and are left out.
    pub(super) fn parsed<'e, B: Deserialize<'e>>(&'e self) -> Option<B> {
        legible("observation", self.body.as_deref()?)
    }
}

/// An entry before the beginning of its log, with its seq: its text, and what was added to it later. A text that cannot be
/// decompressed is left out.
pub(crate) fn old_entry(row: &impl Columns) -> Result<(i64, String)> {
    let (seq, body) = (row.number("seq")?, row.text("body")?);
    let text = row.bytes_or_none("compressed")?.and_then(|compressed| legible_text(compressed, seq));
    // The text takes the place of its time, the first object in the body.
    let place = body.find('{').zip(body.find('}'));
    let whole = text.zip(place).map(|(text, (from, to))| format!("{}{text}{}", &body[..from], &body[to + 1..]));
    Ok((seq, whole.unwrap_or_else(|| body.to_owned())))
}

/// `None`: it cannot be decompressed.
fn legible_text(compressed: &[u8], seq: i64) -> Option<String> {
    let told = |error: &Error| tracing::error!(%error, seq, "an entry of a log cannot be read and is left out");
    decompressed(compressed).inspect_err(told).ok()
}

/// An entry's `body`. The members beside `observations` apply to each observation that has no such member of its own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryBody<C, M> {
    run_id: RunId,
    trace_id: String,
    timestamp: Millis,
    #[serde(rename = "told")]
    pub(super) observations: Vec<StoredObservation<C, M>>,
}

/// The body for writing: facts are serialised here.
type WrittenEntry = EntryBody<Fact, RecordMetadata>;

/// The body for reading: contents stay JSON values, whatever their type.
pub(super) type StoredEntry = EntryBody<Value, Value>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredObservation<C, M> {
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
pub(super) struct EntryFacts<'b> {
    run_id: RunId,
    pub(super) timestamp: Millis,
    #[serde(rename = "told", borrow)]
    observations: Vec<ObservationFact<'b>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservationFact<'b> {
    #[serde(rename = "type")]
    pub(super) kind: ObservationType,
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
    pub(super) fn of_run(&self, run: &RunId, seq: i64) -> impl Iterator<Item = (&ObservationFact<'b>, i64)> {
        let numbered = self.observations.iter().rev().zip((0..=seq).rev());
        numbered.filter(move |(observation, _)| observation.run_id.as_ref().unwrap_or(&self.run_id) == run)
    }
}

impl ObservationFact<'_> {
    /// `None`: it cannot be read.
    pub(super) fn recorded(&self, thread: &ThreadId, seq: i64, of_entry: Millis) -> Option<Recorded> {
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
        Some(Self { seq, types, timestamp: body.timestamp, body: body.text(), compressed: None })
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
        Some(Self { seq, types, timestamp: body.timestamp, body: body.text(), compressed: None })
    }

    pub(crate) fn in_format(self, format: LogFormat) -> Self {
        let compressed = match format {
            LogFormat::Json => None,
            LogFormat::Compressed => compressed(&self.body),
        };
        if compressed.is_none() {
            return self;
        }
        let types = self.types.split(' ').filter_map(ObservationType::parse).map(letter).collect();
        Self { types, body: format!(r#"{{"timestamp":{}}}"#, self.timestamp), compressed, ..self }
    }

    /// The size of what is stored.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.compressed.as_ref().map_or(0, Vec::len)
    }
}

impl<C: Serialize, M: Serialize> EntryBody<C, M> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and JSON values always have a text")
    }
}

/// The letters of types in compressed entries never change; no word has such a letter.
pub(super) fn letter(kind: ObservationType) -> char {
    match kind {
        ObservationType::RunStarted => 'a',
        ObservationType::Intent => 'b',
        ObservationType::Title => 'c',
        ObservationType::Plan => 'd',
        ObservationType::PlanUpdate => 'e',
        ObservationType::ItemStatusChange => 'f',
        ObservationType::LlmStreamStart => 'g',
        ObservationType::LlmStreamMetadata => 'h',
        ObservationType::LlmStreamEnd => 'i',
        ObservationType::LlmStreamError => 'j',
        ObservationType::Thoughts => 'k',
        ObservationType::ToolCall => 'l',
        ObservationType::ToolExecution => 'm',
        ObservationType::AgentSuspended => 'n',
        ObservationType::AgentResumed => 'o',
        ObservationType::SuspensionTimeout => 'p',
        ObservationType::A2aTask => 'q',
        ObservationType::StateUpdate => 'r',
        ObservationType::Synthesis => 's',
        ObservationType::FinalResponse => 't',
        ObservationType::Error => 'u',
        ObservationType::RunFinished => 'v',
    }
}

/// What a search for these types looks for in the types of entries: their words, and their letters.
pub(crate) fn words_and_letters(kinds: &[ObservationType]) -> Vec<String> {
    kinds.iter().flat_map(|&kind| [kind.as_str().to_owned(), letter(kind).to_string()]).collect()
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
    pub(super) fn observations(self, thread: &ThreadId, last: i64) -> impl Iterator<Item = Observation> {
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
