//! Reads an export: checks every line, and converts it to what is stored.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::lines::{Invalid, Reader};
use super::{EndLine, FORMAT, Header};
use crate::domain::Millis;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::facts::{Fact, RecordedMessage};
use crate::domain::ids::{MessageId, RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::payload;
use crate::domain::thread::AgentState;
use crate::engine::history::fold::Fold;
use crate::engine::history::later_calls::is_short_digest;
use crate::engine::step::{Keep, Row, RowKind};
use crate::service::audit::AuditLine;
use crate::store::NewEntry;

/// How deep a line itself nests around the client's values in it.
const MAX_LINE_DEPTH: usize = 16;
/// The greatest seq: later ones are still numbers that every reader of JSON keeps as they are.
const MAX_SEQ: i64 = 1 << 52;
/// How many observations one stored entry holds, and its size in bytes.
const MAX_ENTRY_OBSERVATIONS: usize = 100;
const MAX_ENTRY_BYTES: usize = 256 << 10;

/// The contents of a file.
#[derive(Debug)]
pub(super) struct Archive {
    /// The id of the new thread.
    pub id: ThreadId,
    /// Without its base.
    pub header: Header,
    pub base: Option<String>,
    pub log: Vec<NewEntry>,
    /// The fold of the whole log, with its payloads.
    pub fold: Fold,
    /// When the last run began.
    pub begun: Option<Millis>,
    pub messages: Vec<ConversationMessage>,
    /// Messages that are not part of the conversation: the thread went back to before them, or their runs wait.
    pub superseded: HashSet<MessageId>,
    pub agent_state: Option<AgentState>,
    pub audit: Vec<AuditLine>,
    /// Payloads, and the usage of model calls.
    pub rows: Vec<Row>,
    pub sha256: String,
    /// The ids of the usage that was read: a thread has one row for each.
    used: HashSet<String>,
    /// The messages of the runs that wait, as far as the log was read.
    queued: HashMap<RunId, MessageId>,
    pending: Vec<Observation>,
    pending_bytes: usize,
    next_seq: i64,
    section: Section,
}

/// The sections of a file, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Observations,
    Messages,
    State,
    Audit,
    Usage,
    End,
}

/// Any line but the first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Line {
    observation: Option<Observation>,
    recorded: Option<Value>,
    message: Option<ConversationMessage>,
    superseded: bool,
    agent_state: Option<AgentState>,
    audit: Option<AuditLine>,
    usage: Option<Value>,
    id: String,
    at: Millis,
    end: Option<EndLine>,
}

/// Reads a whole file, for a thread with this id if one is given. The state may have at most `state_bytes`.
pub(super) fn read(text: &[u8], state_bytes: usize, id: Option<ThreadId>) -> Result<Archive, Invalid> {
    let mut lines = Reader::new(text);
    let invalid = |line: u64, why: &str| Invalid { line, why: why.to_owned() };
    let (header, _) = lines.next()?.ok_or_else(|| invalid(1, "the file is empty"))?;
    let mut archive = Archive::begin(header, id).map_err(|why| Invalid { line: 1, why })?;
    while archive.section != Section::End {
        let Some((object, end)) = lines.next()? else {
            return Err(invalid(lines.lines() + 1, "it is missing: the file was cut off before its end"));
        };
        archive.add(object, end, state_bytes).map_err(|why| Invalid { line: lines.lines(), why })?;
    }
    if lines.is_over() { Ok(archive) } else { Err(invalid(lines.lines() + 1, "it follows the end of the file")) }
}

fn check_depth(line: &Value) -> Result<(), String> {
    let most = MOST_DEPTH + MAX_LINE_DEPTH;
    if exceeds(line, most) { Err(format!("objects and arrays nest deeper than {most}")) } else { Ok(()) }
}

impl Archive {
    fn begin(header: Value, id: Option<ThreadId>) -> Result<Self, String> {
        let format = header["format"].as_str().unwrap_or_default();
        if format != FORMAT {
            return Err(format!("its format is `{format}`, not `{FORMAT}`"));
        }
        check_depth(&header)?;
        let mut header: Header = serde_json::from_value(header).map_err(|error| error.to_string())?;
        let is_begun = header.min_seq == 1 || header.base.is_some();
        let is_range =
            (1..=MAX_SEQ).contains(&header.min_seq) && (header.min_seq - 1..=MAX_SEQ).contains(&header.last_seq);
        if !is_range || !is_begun {
            return Err("`minSeq`, `lastSeq` and `base` do not fit together".to_owned());
        }
        if !header.later.iter().all(|digest| is_short_digest(digest)) {
            return Err("`later` holds digests of calls, 32 hexadecimal digits each".to_owned());
        }
        let base = header.base.take();
        let mut archive = Self {
            id: id.unwrap_or_else(|| header.thread_id.clone()),
            next_seq: header.min_seq,
            header,
            base: None,
            log: Vec::new(),
            fold: Fold::default(),
            begun: None,
            messages: Vec::new(),
            superseded: HashSet::new(),
            agent_state: None,
            audit: Vec::new(),
            rows: Vec::new(),
            sha256: String::new(),
            used: HashSet::new(),
            queued: HashMap::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            section: Section::Observations,
        };
        if let Some(mut base) = base {
            archive.fold = Fold::of_text(&base.to_string()).map_err(|error| format!("its base: {error}"))?;
            archive.rename(base.get_mut("messages"));
            archive.escape_references(&mut base);
            archive.base = Some(base.to_string());
        }
        Ok(archive)
    }

    fn add(&mut self, object: Value, end: Option<EndLine>, state_bytes: usize) -> Result<(), String> {
        check_depth(&object)?;
        let line: Line = serde_json::from_value(object).map_err(|error| error.to_string())?;
        match line {
            Line { observation: Some(seen), recorded, .. } => {
                self.enter(Section::Observations)?;
                self.observation(seen, recorded)
            }
            Line { message: Some(message), superseded, .. } => {
                self.enter(Section::Messages)?;
                self.message(message, superseded)
            }
            Line { agent_state: Some(state), .. } => {
                self.enter(Section::State)?;
                let bytes = state.data.to_string().len();
                if bytes > state_bytes || self.agent_state.is_some() {
                    return Err(format!("there is one state of at most {state_bytes} bytes; this takes {bytes}"));
                }
                self.agent_state = Some(state);
                Ok(())
            }
            Line { audit: Some(line), .. } => {
                self.enter(Section::Audit)?;
                self.audit.push(line);
                Ok(())
            }
            Line { usage: Some(used), id, at, .. } => {
                self.enter(Section::Usage)?;
                if !self.used.insert(id.clone()) {
                    return Err(format!("another line has the usage `{id}`"));
                }
                let (kind, body) = (RowKind::ImportedUsage, used.to_string());
                self.rows.push(Row { kind, id, ord: at, keep: Keep::Never, body });
                Ok(())
            }
            Line { end: Some(said), .. } => {
                self.enter(Section::End)?;
                self.flush();
                self.superseded.extend(std::mem::take(&mut self.queued).into_values());
                self.sha256.clone_from(&said.sha256);
                if end == Some(said) { Ok(()) } else { Err("what stands before it is not what it says".to_owned()) }
            }
            Line { .. } => Err("it is none of observation, message, agentState, audit, usage and end".to_owned()),
        }
    }

    fn enter(&mut self, section: Section) -> Result<(), String> {
        if section < self.section {
            return Err("it stands in the wrong place".to_owned());
        }
        if section > Section::Observations && self.next_seq <= self.header.last_seq {
            return Err(format!("the observation {} should stand here", self.next_seq));
        }
        self.section = section;
        Ok(())
    }

    /// The recorded content is stored. The content as it was shown must be what the fold makes of it.
    fn observation(&mut self, mut seen: Observation, recorded: Option<Value>) -> Result<(), String> {
        if seen.seq != self.next_seq || seen.seq > self.header.last_seq {
            return Err(format!("its seq is {}, not {}", seen.seq, self.next_seq));
        }
        if seen.thread_id != self.header.thread_id {
            return Err(format!("it is of the thread `{}`", seen.thread_id));
        }
        let is_plan = [ObservationType::Plan, ObservationType::PlanUpdate].contains(&seen.kind);
        if is_plan != recorded.is_some() {
            return Err("`recorded` stands beside a plan, and nowhere else".to_owned());
        }
        let whole = recorded.map(|recorded| std::mem::replace(&mut seen.content, recorded));
        let shown = self.fold.apply(&seen).map_err(|error| error.to_string())?;
        if whole.is_some_and(|whole| whole != shown) {
            return Err("the plan is not what was recorded of it and before it".to_owned());
        }
        if seen.kind == ObservationType::RunStarted {
            self.begun = Some(seen.timestamp);
        }
        self.follow_queue(&seen);
        self.rename(seen.content.get_mut("messages"));
        self.rename(seen.content.get_mut("message"));
        self.escape_references(&mut seen.content);
        self.next_seq += 1;
        let is_end = seen.kind == ObservationType::RunFinished;
        self.pending_bytes += seen.content.to_string().len();
        self.pending.push(seen);
        if is_end || self.pending.len() == MAX_ENTRY_OBSERVATIONS || self.pending_bytes > MAX_ENTRY_BYTES {
            self.flush();
        }
        Ok(())
    }

    /// Keeps the message of a queued run until the run starts or ends. The new thread has no queue: what is left at the
    /// end was never asked of a model.
    fn follow_queue(&mut self, seen: &Observation) {
        if [ObservationType::RunStarted, ObservationType::RunFinished].contains(&seen.kind) {
            self.queued.remove(&seen.run_id);
        }
        if seen.kind == ObservationType::StateUpdate
            && let Ok(Fact::StateUpdate(update)) = seen.fact()
            && update.is_queued()
            && let Some(RecordedMessage { run_id: Some(run), message_id, .. }) = update.message
        {
            self.queued.insert(run, message_id);
        }
    }

    fn flush(&mut self) {
        self.log.extend(NewEntry::of_observations(std::mem::take(&mut self.pending)));
        self.pending_bytes = 0;
    }

    fn message(&mut self, mut message: ConversationMessage, is_superseded: bool) -> Result<(), String> {
        if message.thread_id != self.header.thread_id {
            return Err(format!("it is of the thread `{}`", message.thread_id));
        }
        message.metadata.iter_mut().flat_map(Map::values_mut).for_each(|value| self.escape_references(value));
        if is_superseded {
            self.superseded.insert(message.message_id.clone());
        }
        self.messages.push(message);
        Ok(())
    }

    /// Sets the new thread's id in recorded messages.
    fn rename(&self, messages: Option<&mut Value>) {
        match messages {
            Some(Value::Array(messages)) => messages.iter_mut().for_each(|message| self.rename(Some(message))),
            Some(message) => {
                if let Some(thread) = message.get_mut("threadId") {
                    *thread = self.id.as_str().into();
                }
            }
            None => {}
        }
    }

    /// Moves a value that looks like a payload reference into a payload, so that it is read as a plain value.
    fn escape_references(&mut self, value: &mut Value) {
        if payload::reference(value).is_some() {
            let (reference, stored) = payload::store(format!("imported-{}", self.rows.len()), value.take());
            *value = reference;
            self.rows.extend(stored.map(|(id, value)| Row {
                kind: RowKind::Payload,
                id: id.to_string(),
                ord: 0,
                keep: Keep::Never,
                body: value.to_string(),
            }));
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.escape_references(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.escape_references(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
