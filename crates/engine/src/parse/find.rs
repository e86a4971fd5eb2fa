//! Finds the JSON in a reply: bare, in a fence, between markers, with prose around it.

use std::ops::Range;

use serde_json::Value;

use super::ParseFault;
use super::json::{self, ReadFailure, Tail};
use super::text::head;

const START: &str = "---JSON_OUTPUT_START---";
const END: &str = "---JSON_OUTPUT_END---";

/// A longer reply is not parsed as JSON.
const MAX_JSON_BYTES: usize = 8 << 20;
/// The most values in one reply, in total: they take far more memory than their text.
const MAX_VALUES: usize = 200_000;
/// How often, on average, a byte may be read again after a bracket that opened no JSON.
const MAX_REREADS: usize = 4;

/// An object or array in a text.
#[derive(Debug, PartialEq)]
pub(super) struct FoundJson {
    pub value: Value,
    pub span: Range<usize>,
    pub tail: Tail,
}

/// The objects and arrays of a reply, outermost ones only, in order; and the failure that got furthest.
#[derive(Debug, Default)]
pub(super) struct FoundValues {
    pub found: Vec<FoundJson>,
    miss: Option<ReadFailure>,
}

/// Looks between the markers first; if nothing is found there, everywhere.
pub(super) fn find(text: &str) -> FoundValues {
    if let Some(section) = marked(text) {
        let finds = scan(text, section);
        if !finds.found.is_empty() {
            return finds;
        }
    }
    scan(text, 0..text.len())
}

/// The first object or array of a text that should contain one; it must be complete.
pub fn embedded(text: &str) -> Result<Value, ParseFault> {
    let finds = find(text);
    let fault = finds.fault(text);
    let first = finds.found.into_iter().next().ok_or(fault)?;
    match first.tail {
        Tail::Whole => Ok(first.value),
        Tail::Unclosed(_) | Tail::Torn => Err(ParseFault("The JSON ends before it is closed.".to_owned())),
    }
}

fn marked(text: &str) -> Option<Range<usize>> {
    let start = text.rfind(START)? + START.len();
    let end = text[start..].find(END).map_or(text.len(), |end| start + end);
    Some(start..end)
}

fn scan(text: &str, section: Range<usize>) -> FoundValues {
    let mut finds = FoundValues::default();
    if section.len() > MAX_JSON_BYTES {
        finds.miss = Some(ReadFailure { at: section.start, what: "it is too long" });
        return finds;
    }
    let text = &text[..section.end];
    let mut fuel = section.len().saturating_mul(MAX_REREADS);
    let mut nodes = MAX_VALUES;
    let mut at = section.start;
    while let Some(open) = text[at..].find(['{', '[']).map(|found| at + found) {
        match json::read(text, open, &mut nodes) {
            Ok((value, end, tail)) => {
                finds.found.push(FoundJson { value, span: open..end, tail });
                at = end;
            }
            Err(miss) => {
                at = open + 1;
                let spent = miss.at - open;
                finds.note(miss);
                if spent > fuel {
                    break;
                }
                fuel -= spent;
            }
        }
    }
    finds
}

impl FoundValues {
    fn note(&mut self, miss: ReadFailure) {
        if self.miss.as_ref().is_none_or(|known| miss.at > known.at) {
            self.miss = Some(miss);
        }
    }

    /// The sentence for the model if its reply should have contained a JSON object.
    pub(super) fn fault(&self, text: &str) -> ParseFault {
        let Some(miss) = &self.miss else {
            return ParseFault("There is no JSON object in the reply.".to_owned());
        };
        let rest = head(&text[text.floor_char_boundary(miss.at)..], 40);
        ParseFault(format!("The JSON cannot be read at byte {}, before {rest:?}: {}.", miss.at, miss.what))
    }

    /// The text around the JSON, without the fences and markers that enclosed it.
    pub(super) fn prose(&self, text: &str) -> String {
        let mut pieces = Vec::new();
        let mut at = 0;
        for found in &self.found {
            pieces.push(without_opening(&text[at..found.span.start]));
            at = found.span.end;
        }
        let last = &text[at..];
        pieces.push(if self.found.is_empty() { last } else { without_closing(last) });
        pieces.retain(|piece| !piece.trim().is_empty());
        pieces.concat().trim().to_owned()
    }
}

fn without_opening(before: &str) -> &str {
    let text = without_closing(before).trim_end();
    let text = text.strip_suffix(START).unwrap_or(text).trim_end();
    let text = text.strip_suffix("```json").or_else(|| text.strip_suffix("```")).unwrap_or(text);
    text.strip_suffix(START).unwrap_or(text)
}

fn without_closing(after: &str) -> &str {
    let text = after.trim_start();
    let text = text.strip_prefix("```").unwrap_or(text).trim_start();
    text.strip_prefix(END).unwrap_or(text)
}
