//! The queue of one socket: ordered and bounded. When the socket is slow, its entries are merged, then dropped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use super::Live;
use super::encoded::{Encoded, EncodedKind};
use super::stream::{Channel, OpenStream, TOKEN_ENVELOPE_BYTES};
use crate::domain::ids::RunId;

#[derive(Debug)]
pub(super) struct Queue {
    entries: VecDeque<QueueEntry>,
    /// The size of all entries, in bytes. A catch-up counts nothing: it refers to text that all sockets share.
    pub(super) weight: usize,
    limit: usize,
    /// A gap is queued. Observations are not queued behind it: the reader reads them from the log.
    has_gap: bool,
    /// Entries were dropped because they did not fit; the queued gap says so.
    has_overflowed: bool,
    /// The reader has read the log up to this seq.
    pub(super) read_seq: i64,
    pub(super) waker: Option<Waker>,
}

#[derive(Debug)]
enum QueueEntry {
    Frame(Arc<Encoded>),
    Text(QueuedText),
    Gap,
    Draining(i64),
}

/// A range of a stream's text. It is encoded when the reader takes it.
#[derive(Debug)]
struct QueuedText {
    stream: Arc<OpenStream>,
    channel: Channel,
    range: Range<usize>,
    /// The text from before the subscription. It is never dropped.
    is_catch_up: bool,
}

impl QueuedText {
    fn is_followed_by(&self, next: &QueuedText) -> bool {
        Arc::ptr_eq(&self.stream, &next.stream) && self.channel == next.channel && self.range.end == next.range.start
    }
}

impl QueueEntry {
    fn weight(&self) -> usize {
        match self {
            QueueEntry::Frame(frame) => frame.weight(),
            QueueEntry::Text(piece) if piece.is_catch_up => 0,
            QueueEntry::Text(piece) => TOKEN_ENVELOPE_BYTES + piece.range.len(),
            QueueEntry::Gap | QueueEntry::Draining(_) => 0,
        }
    }
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            weight: 0,
            limit,
            has_gap: false,
            has_overflowed: false,
            read_seq: 0,
            waker: None,
        }
    }

    pub(super) fn push_frame(&mut self, frame: &Arc<Encoded>) {
        let is_observation = matches!(frame.kind, EncodedKind::Observation { .. });
        if !(is_observation && self.has_gap) {
            self.push(QueueEntry::Frame(frame.clone()));
        }
    }

    pub(super) fn push_catch_up(&mut self, stream: &Arc<OpenStream>, channel: Channel) {
        let range = 0..stream.length(channel);
        if !range.is_empty() {
            self.push(QueueEntry::Text(QueuedText { stream: stream.clone(), channel, range, is_catch_up: true }));
        }
    }

    pub(super) fn push_token(&mut self, stream: &Arc<OpenStream>, channel: Channel, range: Range<usize>) {
        self.push(QueueEntry::Text(QueuedText { stream: stream.clone(), channel, range, is_catch_up: false }));
    }

    pub(super) fn push_draining(&mut self, retry_in_ms: i64) {
        self.push(QueueEntry::Draining(retry_in_ms));
    }

    /// Something was committed of which this queue gets no frames: the reader must read the log.
    pub(super) fn push_gap(&mut self) {
        if !std::mem::replace(&mut self.has_gap, true) {
            self.push(QueueEntry::Gap);
        }
    }

    /// The next entry to send. With `joins_tokens`, adjacent pieces of one text become one frame.
    pub(super) fn take(&mut self, joins_tokens: bool) -> Option<Live> {
        let entry = self.pop()?;
        Some(match entry {
            QueueEntry::Frame(frame) => Live::Frame(frame),
            QueueEntry::Text(mut piece) => {
                while joins_tokens
                    && let Some(QueueEntry::Text(next)) = self.entries.front()
                    && piece.is_followed_by(next)
                {
                    piece.range.end = next.range.end;
                    self.pop();
                }
                Live::Frame(piece.stream.frame(piece.channel, piece.range))
            }
            QueueEntry::Gap => {
                self.has_gap = false;
                Live::Gap { overflowed: std::mem::take(&mut self.has_overflowed) }
            }
            QueueEntry::Draining(retry_in_ms) => Live::Draining(retry_in_ms),
        })
    }

    fn pop(&mut self) -> Option<QueueEntry> {
        let entry = self.entries.pop_front()?;
        self.weight -= entry.weight();
        Some(entry)
    }

    /// A single frame may be larger than the limit if nothing else waits: a fast reader gets it without reading the log.
    fn push(&mut self, entry: QueueEntry) {
        let was_empty = self.weight == 0;
        self.weight += entry.weight();
        self.entries.push_back(entry);
        if self.weight > self.limit && !was_empty {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.merge_tokens();
        if self.weight > self.limit {
            self.retain(|entry| !matches!(entry, QueueEntry::Text(piece) if !piece.is_catch_up));
        }
        if self.weight > self.limit {
            self.replace_observations_by_gap();
            self.retain_newest_runs();
        }
        if self.weight > self.limit {
            self.retain(|entry| !matches!(entry, QueueEntry::Frame(_)));
        }
    }

    /// The gap comes where the first observation, or an earlier gap, was. So a run still comes after all that it follows from.
    fn replace_observations_by_gap(&mut self) {
        let is_replaced = |entry: &QueueEntry| is_observation(entry) || matches!(entry, QueueEntry::Gap);
        let first = self.entries.iter().position(is_replaced).unwrap_or(self.entries.len());
        self.entries.retain(|entry| !is_replaced(entry));
        self.entries.insert(first, QueueEntry::Gap);
        (self.has_gap, self.has_overflowed) = (true, true);
        self.recompute_weight();
    }

    /// Merges later pieces of a stream into its first waiting one. The order that matters is kept: the first waiting piece comes
    /// after the stream's start, and every later one before its end.
    fn merge_tokens(&mut self) {
        let mut first: HashMap<(*const OpenStream, Channel), usize> = HashMap::new();
        let mut merged: VecDeque<QueueEntry> = VecDeque::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            if let QueueEntry::Text(piece) = &entry
                && !piece.is_catch_up
            {
                let key = (Arc::as_ptr(&piece.stream), piece.channel);
                if let Some(QueueEntry::Text(earlier)) = first.get(&key).and_then(|at| merged.get_mut(*at)) {
                    earlier.range.end = piece.range.end;
                    continue;
                }
                first.insert(key, merged.len());
            }
            merged.push_back(entry);
        }
        self.entries = merged;
        self.recompute_weight();
    }

    fn retain_newest_runs(&mut self) {
        let mut seen: HashSet<RunId> = HashSet::new();
        let mut newest: VecDeque<QueueEntry> = VecDeque::with_capacity(self.entries.len());
        for entry in self.entries.drain(..).rev() {
            let is_old = matches!(&entry, QueueEntry::Frame(frame) if matches!(&frame.kind, EncodedKind::Run { run_id, .. } if !seen.insert(run_id.clone())));
            if !is_old {
                newest.push_front(entry);
            }
        }
        self.entries = newest;
        self.recompute_weight();
    }

    fn retain(&mut self, wanted: impl Fn(&QueueEntry) -> bool) {
        self.entries.retain(wanted);
        self.recompute_weight();
    }

    fn recompute_weight(&mut self) {
        self.weight = self.entries.iter().map(QueueEntry::weight).sum();
    }
}

fn is_observation(entry: &QueueEntry) -> bool {
    matches!(entry, QueueEntry::Frame(frame) if matches!(frame.kind, EncodedKind::Observation { .. }))
}
