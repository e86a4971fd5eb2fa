//! The rows that runs leave behind and that machines no longer load. They are deleted with the part of the log that
//! names them, unless something that stays names them too.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::step::RowKind;

/// No id and no name of a payload is longer, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// Adds every string of this JSON text that may be an id. Of a text that cannot be read it adds none.
pub fn names(text: &str, found: &mut BTreeSet<String>) {
    if let Ok(value) = serde_json::from_str(text) {
        names_of(value, found);
    }
}

/// Adds every string of this value that may be an id.
pub fn names_of(value: Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => add(text, found),
        Value::Array(values) => values.into_iter().for_each(|value| names_of(value, found)),
        Value::Object(members) => members.into_iter().for_each(|(name, value)| {
            add(name, found);
            names_of(value, found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add(text: String, found: &mut BTreeSet<String>) {
    if text.len() <= MAX_NAME_BYTES {
        found.insert(text);
    }
}

/// The rows that a log may refer to by this name, as far as they may be deleted with it: messages and their payloads
/// stay. A model may give an item any id, so every name may be an item's.
pub fn rows_named(name: &str) -> Vec<(RowKind, String)> {
    let payload = |what: &str| (RowKind::Payload, format!("{name}{what}"));
    let own = |kind| (kind, name.to_owned());
    let others = match name.split_once('_').map(|(kind, _)| kind) {
        Some("msg") => Vec::new(),
        Some("call") => vec![own(RowKind::Call), payload("")],
        Some("task") => vec![own(RowKind::Task)],
        Some("str") => vec![payload(""), payload(".replay")],
        Some("sus") => {
            let apart = ["", ".system", ".task", ".reply"].map(payload);
            [own(RowKind::Suspension)].into_iter().chain(apart).collect()
        }
        Some(_) | None => vec![payload("")],
    };
    [own(RowKind::Item), own(RowKind::Progress)].into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests;
