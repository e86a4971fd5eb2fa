//! A reply's body, taken piece by piece: bytes → events → deltas. Pure.

use super::wire::Wire;
use crate::domain::model::{Delta, FailureKind, ModelFailure};
use crate::provider::http::failure;
use crate::provider::sse::Decoder;

pub(super) struct Body {
    shape: Shape,
    wire: Wire,
}

enum Shape {
    Events(Decoder),
    /// One JSON document, from a server that does not stream.
    Whole(Vec<u8>),
}

impl Body {
    /// `limit` bounds one event.
    pub(super) fn of_events(limit: usize) -> Self {
        Self { shape: Shape::Events(Decoder::new(limit)), wire: Wire::default() }
    }

    pub(super) fn whole() -> Self {
        Self { shape: Shape::Whole(Vec::new()), wire: Wire::default() }
    }

    /// Takes the next bytes, split anywhere. `true`: the reply is over and complete.
    pub(super) fn take(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) -> Result<bool, ModelFailure> {
        let decoder = match &mut self.shape {
            Shape::Whole(whole) => {
                whole.extend_from_slice(bytes);
                return Ok(false);
            }
            Shape::Events(decoder) => decoder,
        };
        let mut events = Vec::new();
        let decoded = decoder.push(bytes, &mut events);
        for event in events {
            self.wire.event(&event, deltas)?;
            if self.wire.is_over() {
                return self.wire.finish(deltas).map(|()| true);
            }
        }
        decoded.map(|()| false).map_err(|error| failure(FailureKind::Broken, error.to_string()))
    }

    /// The body ended by itself. `Ok`: the reply is complete. An event torn by the end is no event.
    pub(super) fn end(mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        match self.shape {
            Shape::Whole(whole) => {
                let text =
                    str::from_utf8(&whole).map_err(|_| failure(FailureKind::Broken, "the reply is not UTF-8"))?;
                self.wire.event(text, deltas)?;
            }
            Shape::Events(decoder) => {
                if let Ok(Some(event)) = decoder.finish() {
                    let torn = failure(FailureKind::Incomplete, "the stream ended in the middle of an event");
                    self.wire.event(&event, deltas).map_err(|_| torn)?;
                }
            }
        }
        self.wire.finish(deltas)
    }
}
