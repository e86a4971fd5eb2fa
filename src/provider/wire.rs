//! Decodes a reply's body incrementally: bytes → events → deltas. Pure.

use super::http::failure;
use super::lines::LineDecoder;
use super::size::ReplySize;
use crate::domain::model::{Delta, FailureKind, ModelFailure};
use crate::egress::sse::Decoder;

/// Converts the events of one reply into deltas. Tolerates members that vendors add or omit; its memory is bounded by
/// its input.
pub(crate) trait Wire: Send {
    /// Processes one event's data, or one line, and appends its deltas to `deltas`.
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure>;
    /// The vendor's end marker was received: further events are ignored.
    fn is_finished(&self) -> bool;
    /// The body has ended. Appends what was held back, then usage and stop; without a stop reason the reply is
    /// incomplete.
    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure>;
}

/// How events are separated in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON document per line.
    Lines,
    /// One JSON document, from a server that does not stream.
    Whole,
}

pub(crate) struct ReplyDecoder<W> {
    frames: FrameDecoder,
    wire: W,
    size: ReplySize,
}

enum FrameDecoder {
    Events(Decoder),
    Lines(LineDecoder),
    Whole(Vec<u8>),
}

impl<W: Wire> ReplyDecoder<W> {
    /// `limit` bounds the reply's content.
    pub(crate) fn new(framing: Framing, wire: W, limit: usize) -> Self {
        let event = ReplySize::max_event_bytes(limit);
        let frames = match framing {
            Framing::Events => FrameDecoder::Events(Decoder::new(event)),
            Framing::Lines => FrameDecoder::Lines(LineDecoder::new(event)),
            Framing::Whole => FrameDecoder::Whole(Vec::new()),
        };
        Self { frames, wire, size: ReplySize::new(limit) }
    }

    /// Decodes the next bytes, which may be split anywhere. Returns whether the reply is complete.
    pub(crate) fn push(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) -> Result<bool, ModelFailure> {
        let mut rest = bytes;
        loop {
            let (left, before) = (rest.len(), deltas.len());
            let event = match &mut self.frames {
                FrameDecoder::Whole(whole) => {
                    self.size.add_bytes(bytes.len())?;
                    whole.extend_from_slice(bytes);
                    return Ok(false);
                }
                FrameDecoder::Events(decoder) => decoder.next(&mut rest),
                FrameDecoder::Lines(lines) => lines.next(&mut rest),
            };
            self.size.add_bytes(left - rest.len())?;
            let event = event.map_err(|error| failure(FailureKind::Broken, error.to_string()))?;
            let Some(event) = event else { return Ok(false) };
            self.wire.event(event, deltas)?;
            self.size.count_event(deltas, before)?;
            if self.wire.is_finished() {
                return self.wire.finish(deltas).map(|()| true);
            }
        }
    }

    /// The body has ended. `Ok`: the reply is complete. If the last event is cut off, the reply is incomplete.
    pub(crate) fn finish(mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let last = match self.frames {
            FrameDecoder::Whole(whole) => {
                let text =
                    str::from_utf8(&whole).map_err(|_| failure(FailureKind::Broken, "the reply is not UTF-8"))?;
                self.wire.event(text, deltas)?;
                self.size.count_event(deltas, 0)?;
                None
            }
            FrameDecoder::Events(decoder) => decoder.finish().ok().flatten(),
            FrameDecoder::Lines(lines) => lines.finish().ok().flatten(),
        };
        if let Some(event) = last {
            let torn = || failure(FailureKind::Incomplete, "the stream ended in the middle of an event");
            let torn = |failure: ModelFailure| if failure.kind == FailureKind::Broken { torn() } else { failure };
            let before = deltas.len();
            self.wire.event(&event, deltas).map_err(torn)?;
            self.size.count_event(deltas, before)?;
        }
        self.wire.finish(deltas)
    }
}

#[cfg(test)]
pub(crate) mod tests;
