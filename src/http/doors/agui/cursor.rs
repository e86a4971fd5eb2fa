//! The event id, which is a cursor into a stream. With it and the log alone, any replica can send the rest of the
//! stream.
//!
//! It contains the run, the position in the log where the stream began, and the position of the event. Tokens are not
//! in the log, so the cursor also contains how much of each open text was sent.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::text_events::stream_of_reasoning;
use crate::domain::ids::{RunId, StreamId};
use crate::http::doors::text_events::PrefixDigest;

/// The part of a run that one stream sends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) run: RunId,
    /// The stream sends what follows this `seq`.
    pub(super) start: i64,
    /// Up to this `seq` a question does not end the stream, because it was answered before the stream began.
    pub(super) settled: i64,
    /// How many answers the request gave that began the stream.
    pub(super) answers: u32,
    /// The stream began with a snapshot of the conversation (`/agui/connect`).
    pub(super) has_snapshot: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cursor {
    pub(super) segment: Segment,
    pub(super) position: EventPosition,
    /// The texts that were open at this position: before the observation's events, or now.
    pub(super) texts: OpenTexts,
}

/// A position between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventPosition {
    /// After this many events of the observation with this `seq`.
    InObservation { seq: i64, sent: usize },
    /// After all events of that observation, and after this many of the events that end the stream.
    AfterObservation { seq: i64, sent: usize },
}

/// The texts that were begun and not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenTexts {
    pub(super) answer: Option<(StreamId, PrefixDigest)>,
    pub(super) thoughts: Vec<OpenThoughts>,
}

/// The thoughts of a model call that were begun and not ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenThoughts {
    pub(super) stream: StreamId,
    /// How many bytes were sent.
    pub(super) sent: u64,
    /// Whether its message has begun.
    pub(super) has_begun: bool,
}

impl OpenTexts {
    pub(super) fn apply(&mut self, event: &Value) {
        let id = event["messageId"].as_str().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("TEXT_MESSAGE_START") => self.answer = Some((id.into(), PrefixDigest::default())),
            Some("TEXT_MESSAGE_CONTENT") => {
                if let Some((_, mark)) = &mut self.answer {
                    mark.add(delta);
                }
            }
            Some("TEXT_MESSAGE_END") => self.answer = None,
            Some("REASONING_START") => {
                let stream = stream_of_reasoning(id).into();
                self.thoughts.push(OpenThoughts { stream, sent: 0, has_begun: false });
            }
            Some("REASONING_MESSAGE_START") => self.update_thoughts(id, |open| open.has_begun = true),
            Some("REASONING_MESSAGE_CONTENT") => self.update_thoughts(id, |open| open.sent += delta.len() as u64),
            Some("REASONING_END") => self.thoughts.retain(|open| open.stream.as_str() != stream_of_reasoning(id)),
            Some(_) | None => {}
        }
    }

    fn update_thoughts(&mut self, id: &str, change: impl FnMut(&mut OpenThoughts)) {
        let open = self.thoughts.iter_mut().find(|open| open.stream.as_str() == stream_of_reasoning(id));
        open.into_iter().for_each(change);
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { run, start, settled, answers, has_snapshot } = &self.segment;
        let kind = if *has_snapshot { 'c' } else { 'r' };
        let (position, seq, sent) = match self.position {
            EventPosition::InObservation { seq, sent } => ('w', seq, sent),
            EventPosition::AfterObservation { seq, sent } => ('b', seq, sent),
        };
        write!(f, "{run}:{kind}:{start}:{settled}:{answers}:{position}:{seq}:{sent}")?;
        if let Some((stream, PrefixDigest { bytes, digest })) = &self.texts.answer {
            write!(f, ";a:{stream}:{bytes}:{digest:x}")?;
        }
        for OpenThoughts { stream, sent, has_begun } in &self.texts.thoughts {
            write!(f, ";t:{stream}:{sent}:{}", u8::from(*has_begun))?;
        }
        Ok(())
    }
}

/// The text is not an event id of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidCursor;

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let mut parts = text.split(';');
        let head: Vec<&str> = parts.next().unwrap_or_default().split(':').collect();
        let [run, kind @ ("c" | "r"), start, settled, answers, position, seq, sent] = head[..] else {
            return Err(InvalidCursor);
        };
        let (seq, sent) = (number(seq)?, number(sent)?);
        let position = match position {
            "w" => EventPosition::InObservation { seq, sent },
            "b" => EventPosition::AfterObservation { seq, sent },
            _ => return Err(InvalidCursor),
        };
        let segment = Segment {
            run: run.into(),
            start: number(start)?,
            settled: number(settled)?,
            answers: number(answers)?,
            has_snapshot: kind == "c",
        };
        let mut texts = OpenTexts::default();
        for part in parts {
            match part.split(':').collect::<Vec<_>>()[..] {
                ["a", stream, bytes, digest] => {
                    let digest = u64::from_str_radix(digest, 16).map_err(|_| InvalidCursor)?;
                    texts.answer = Some((stream.into(), PrefixDigest { bytes: number(bytes)?, digest }));
                }
                ["t", stream, sent, has_begun @ ("0" | "1")] => {
                    let (stream, sent) = (stream.into(), number(sent)?);
                    texts.thoughts.push(OpenThoughts { stream, sent, has_begun: has_begun == "1" });
                }
                _ => return Err(InvalidCursor),
            }
        }
        Ok(Self { segment, position, texts })
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, InvalidCursor> {
    text.parse().map_err(|_| InvalidCursor)
}
