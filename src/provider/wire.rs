//! A reply's body, taken piece by piece: bytes → events → deltas. Pure.

use super::http::failure;
use super::lines::Lines;
use super::size::Size;
use crate::domain::model::{Delta, FailureKind, ModelFailure};
use crate::egress::sse::Decoder;

/// Takes the events of one reply apart. Tolerant of what vendors add and leave out; what it holds is bounded by what it
/// was given.
pub(crate) trait Wire: Send {
    /// One event's data, or one line; what it says is appended to `deltas`.
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure>;
    /// The vendor's word for the end came: nothing after it counts.
    fn is_over(&self) -> bool;
    /// Nothing more comes. What was held back comes out, then the usage and the stop; without a stop the reply is
    /// incomplete.
    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure>;
}

/// How events are told apart in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON document per line.
    Lines,
    /// One JSON document, from a server that does not stream.
    Whole,
}

pub(crate) struct Body<W> {
    shape: Shape,
    wire: W,
    size: Size,
}

enum Shape {
    Events(Decoder),
    Lines(Lines),
    Whole(Vec<u8>),
}

impl<W: Wire> Body<W> {
    /// `limit` bounds what the reply says.
    pub(crate) fn new(framing: Framing, wire: W, limit: usize) -> Self {
        let event = Size::of_event(limit);
        let shape = match framing {
            Framing::Events => Shape::Events(Decoder::new(event)),
            Framing::Lines => Shape::Lines(Lines::new(event)),
            Framing::Whole => Shape::Whole(Vec::new()),
        };
        Self { shape, wire, size: Size::new(limit) }
    }

    /// Takes the next bytes, split anywhere. `true`: the reply is over and complete.
    pub(crate) fn take(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) -> Result<bool, ModelFailure> {
        let mut rest = bytes;
        loop {
            let (left, before) = (rest.len(), deltas.len());
            let event = match &mut self.shape {
                Shape::Whole(whole) => {
                    self.size.came(bytes.len())?;
                    whole.extend_from_slice(bytes);
                    return Ok(false);
                }
                Shape::Events(decoder) => decoder.next(&mut rest),
                Shape::Lines(lines) => lines.next(&mut rest),
            };
            self.size.came(left - rest.len())?;
            let event = event.map_err(|error| failure(FailureKind::Broken, error.to_string()))?;
            let Some(event) = event else { return Ok(false) };
            self.wire.event(event, deltas)?;
            self.size.count_event(deltas, before)?;
            if self.wire.is_over() {
                return self.wire.finish(deltas).map(|()| true);
            }
        }
    }

    /// The body ended by itself. `Ok`: the reply is complete. An event torn by the end is no event.
    pub(crate) fn end(mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let last = match self.shape {
            Shape::Whole(whole) => {
                let text =
                    str::from_utf8(&whole).map_err(|_| failure(FailureKind::Broken, "the reply is not UTF-8"))?;
                self.wire.event(text, deltas)?;
                self.size.count_event(deltas, 0)?;
                None
            }
            Shape::Events(decoder) => decoder.finish().ok().flatten(),
            Shape::Lines(lines) => lines.finish().ok().flatten(),
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
