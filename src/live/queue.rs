//! What waits for one socket: in order, bounded, merged and thinned out when the socket is slow.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use super::Live;
use super::encoded::{Encoded, EncodedKind};
use super::stream::{Channel, ENVELOPE, OpenStream};
use crate::domain::ids::RunId;

#[derive(Debug)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
    /// What the entries weigh; a catch-up weighs nothing, it refers to text that all sockets share.
    pub(super) weight: usize,
    limit: usize,
    /// A gap waits: observations need not, they will be read again.
    gapped: bool,
    /// The gap that waits stands for what did not fit.
    overflowed: bool,
    /// Its reader has read the log up to this seq.
    pub(super) read: i64,
    pub(super) waker: Option<Waker>,
}

#[derive(Debug)]
enum Entry {
    Frame(Arc<Encoded>),
    Piece(Piece),
    Gap,
    Draining(i64),
}

/// A range of a stream's text. It is encoded when it is taken.
#[derive(Debug)]
struct Piece {
    stream: Arc<OpenStream>,
    channel: Channel,
    range: Range<usize>,
    /// What was said before the socket came: never dropped.
    catch_up: bool,
}

impl Piece {
    fn is_followed_by(&self, next: &Piece) -> bool {
        Arc::ptr_eq(&self.stream, &next.stream) && self.channel == next.channel && self.range.end == next.range.start
    }
}

impl Entry {
    fn weight(&self) -> usize {
        match self {
            Entry::Frame(frame) => frame.weight(),
            Entry::Piece(piece) if piece.catch_up => 0,
            Entry::Piece(piece) => ENVELOPE + piece.range.len(),
            Entry::Gap | Entry::Draining(_) => 0,
        }
    }
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), weight: 0, limit, gapped: false, overflowed: false, read: 0, waker: None }
    }

    pub(super) fn frame(&mut self, frame: &Arc<Encoded>) {
        let is_observation = matches!(frame.kind, EncodedKind::Observation { .. });
        if !(is_observation && self.gapped) {
            self.push(Entry::Frame(frame.clone()));
        }
    }

    pub(super) fn catch_up(&mut self, stream: &Arc<OpenStream>, channel: Channel) {
        let range = 0..stream.length(channel);
        if !range.is_empty() {
            self.push(Entry::Piece(Piece { stream: stream.clone(), channel, range, catch_up: true }));
        }
    }

    pub(super) fn token(&mut self, stream: &Arc<OpenStream>, channel: Channel, range: Range<usize>) {
        self.push(Entry::Piece(Piece { stream: stream.clone(), channel, range, catch_up: false }));
    }

    pub(super) fn draining(&mut self, retry_in_ms: i64) {
        self.push(Entry::Draining(retry_in_ms));
    }

    /// Something was committed that is not told here: it is to be read.
    pub(super) fn gap(&mut self) {
        if !std::mem::replace(&mut self.gapped, true) {
            self.push(Entry::Gap);
        }
    }

    /// The next thing to send. `joined`: pieces of one text that wait in a row are one frame.
    pub(super) fn take(&mut self, joined: bool) -> Option<Live> {
        let entry = self.pop()?;
        Some(match entry {
            Entry::Frame(frame) => Live::Frame(frame),
            Entry::Piece(mut piece) => {
                while joined
                    && let Some(Entry::Piece(next)) = self.entries.front()
                    && piece.is_followed_by(next)
                {
                    piece.range.end = next.range.end;
                    self.pop();
                }
                Live::Frame(piece.stream.frame(piece.channel, piece.range))
            }
            Entry::Gap => {
                self.gapped = false;
                Live::Gap { overflowed: std::mem::take(&mut self.overflowed) }
            }
            Entry::Draining(retry_in_ms) => Live::Draining(retry_in_ms),
        })
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.weight -= entry.weight();
        Some(entry)
    }

    /// One frame may be larger than the limit when nothing else waits: a fast reader gets it without a detour.
    fn push(&mut self, entry: Entry) {
        let alone = self.weight == 0;
        self.weight += entry.weight();
        self.entries.push_back(entry);
        if self.weight > self.limit && !alone {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.merge_tokens();
        if self.weight > self.limit {
            self.keep(|entry| !matches!(entry, Entry::Piece(piece) if !piece.catch_up));
        }
        if self.weight > self.limit {
            self.keep(|entry| !is_observation(entry));
            self.overflowed = true;
            if !std::mem::replace(&mut self.gapped, true) {
                self.entries.push_back(Entry::Gap);
            }
            self.keep_newest_runs();
        }
        if self.weight > self.limit {
            self.keep(|entry| !matches!(entry, Entry::Frame(_)));
        }
    }

    /// Later pieces join the first that waits. Nothing is overtaken that matters: a stream's first waiting piece stands
    /// after its start, and every later one before its end.
    fn merge_tokens(&mut self) {
        let mut first: HashMap<(*const OpenStream, Channel), usize> = HashMap::new();
        let mut merged: VecDeque<Entry> = VecDeque::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            if let Entry::Piece(piece) = &entry
                && !piece.catch_up
            {
                let key = (Arc::as_ptr(&piece.stream), piece.channel);
                if let Some(Entry::Piece(earlier)) = first.get(&key).and_then(|at| merged.get_mut(*at)) {
                    earlier.range.end = piece.range.end;
                    continue;
                }
                first.insert(key, merged.len());
            }
            merged.push_back(entry);
        }
        self.entries = merged;
        self.weigh();
    }

    fn keep_newest_runs(&mut self) {
        let mut seen: HashSet<RunId> = HashSet::new();
        let mut newest: VecDeque<Entry> = VecDeque::with_capacity(self.entries.len());
        for entry in self.entries.drain(..).rev() {
            let is_old = matches!(&entry, Entry::Frame(frame) if matches!(&frame.kind, EncodedKind::Run { run_id, .. } if !seen.insert(run_id.clone())));
            if !is_old {
                newest.push_front(entry);
            }
        }
        self.entries = newest;
        self.weigh();
    }

    fn keep(&mut self, wanted: impl Fn(&Entry) -> bool) {
        self.entries.retain(wanted);
        self.weigh();
    }

    fn weigh(&mut self) {
        self.weight = self.entries.iter().map(Entry::weight).sum();
    }
}

fn is_observation(entry: &Entry) -> bool {
    matches!(entry, Entry::Frame(frame) if matches!(frame.kind, EncodedKind::Observation { .. }))
}
