//! Where in a stream a client is: what the id of an event says. With it and the log alone any replica tells the rest.
//!
//! It names the run, where in its log the stream began, and the place of the event. Tokens are not in the log: so it says, too,
//! how much was told of each text that is being said.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::spoken::stream_of_thoughts;
use crate::domain::ids::{RunId, StreamId};
use crate::http::doors::speech::TextMark;

/// What of a run a stream tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) run: RunId,
    /// What follows this place of the log is told.
    pub(super) start: i64,
    /// Up to here a question that was asked does not end the stream: it was answered before the stream began.
    pub(super) settled: i64,
    /// How many answers to questions belong to the request that began the stream.
    pub(super) answers: u32,
    /// It began with the conversation.
    pub(super) is_connected: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cursor {
    pub(super) segment: Segment,
    pub(super) place: Place,
    /// What was being said at this place: before the observation's events, or now.
    pub(super) texts: Texts,
}

/// Between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind so many of the events that the observation of this seq comes to.
    Within { seq: i64, told: usize },
    /// Behind all of them, and behind so many of those that end the stream.
    Behind { seq: i64, told: usize },
}

/// The texts that are being said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Texts {
    pub(super) answer: Option<(StreamId, TextMark)>,
    /// How much was told of each, and whether its message has begun.
    pub(super) thoughts: Vec<(StreamId, u64, bool)>,
}

impl Texts {
    pub(super) fn hears(&mut self, event: &Value) {
        let id = event["messageId"].as_str().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("TEXT_MESSAGE_START") => self.answer = Some((id.into(), TextMark::default())),
            Some("TEXT_MESSAGE_CONTENT") => {
                if let Some((_, mark)) = &mut self.answer {
                    mark.add(delta);
                }
            }
            Some("TEXT_MESSAGE_END") => self.answer = None,
            Some("REASONING_START") => self.thoughts.push((stream_of_thoughts(id).into(), 0, false)),
            Some("REASONING_MESSAGE_START") => self.of_thoughts(id, |(_, _, has_begun)| *has_begun = true),
            Some("REASONING_MESSAGE_CONTENT") => self.of_thoughts(id, |(_, told, _)| *told += delta.len() as u64),
            Some("REASONING_END") => self.thoughts.retain(|(stream, ..)| stream.as_str() != stream_of_thoughts(id)),
            Some(_) | None => {}
        }
    }

    fn of_thoughts(&mut self, id: &str, change: impl FnMut(&mut (StreamId, u64, bool))) {
        let is_it = |known: &&mut (StreamId, u64, bool)| known.0.as_str() == stream_of_thoughts(id);
        self.thoughts.iter_mut().find(is_it).into_iter().for_each(change);
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segment { run, start, settled, answers, is_connected } = &self.segment;
        let kind = if *is_connected { 'c' } else { 'r' };
        let (place, seq, told) = match self.place {
            Place::Within { seq, told } => ('w', seq, told),
            Place::Behind { seq, told } => ('b', seq, told),
        };
        write!(f, "{run}:{kind}:{start}:{settled}:{answers}:{place}:{seq}:{told}")?;
        if let Some((stream, TextMark { bytes, digest })) = &self.texts.answer {
            write!(f, ";a:{stream}:{bytes}:{digest:x}")?;
        }
        for (stream, told, has_begun) in &self.texts.thoughts {
            write!(f, ";t:{stream}:{told}:{}", u8::from(*has_begun))?;
        }
        Ok(())
    }
}

/// It is no id of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoCursor;

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let mut parts = text.split(';');
        let head: Vec<&str> = parts.next().unwrap_or_default().split(':').collect();
        let [run, kind @ ("c" | "r"), start, settled, answers, place, seq, told] = head[..] else {
            return Err(NoCursor);
        };
        let (seq, told) = (number(seq)?, number(told)?);
        let place = match place {
            "w" => Place::Within { seq, told },
            "b" => Place::Behind { seq, told },
            _ => return Err(NoCursor),
        };
        let segment = Segment {
            run: run.into(),
            start: number(start)?,
            settled: number(settled)?,
            answers: number(answers)?,
            is_connected: kind == "c",
        };
        let mut texts = Texts::default();
        for part in parts {
            match part.split(':').collect::<Vec<_>>()[..] {
                ["a", stream, bytes, digest] => {
                    let digest = u64::from_str_radix(digest, 16).map_err(|_| NoCursor)?;
                    texts.answer = Some((stream.into(), TextMark { bytes: number(bytes)?, digest }));
                }
                ["t", stream, told, has_begun @ ("0" | "1")] => {
                    texts.thoughts.push((stream.into(), number(told)?, has_begun == "1"));
                }
                _ => return Err(NoCursor),
            }
        }
        Ok(Self { segment, place, texts })
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, NoCursor> {
    text.parse().map_err(|_| NoCursor)
}
