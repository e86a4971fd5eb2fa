//! What runs leave beside the log: rows that machines are not given any more. They go with the part of the log that told of
//! them, unless something that stays names them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::step::RowKind;

/// Ids and names of payloads are shorter.
const LONGEST: usize = 200;

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
    if text.len() <= LONGEST {
        found.insert(text);
    }
}

/// The rows that a log tells of by this name, as far as they may go with it: messages stay, and so do their payloads.
pub fn rows_named(name: &str) -> Vec<(RowKind, String)> {
    let payload = |name: String| (RowKind::Payload, name);
    let own = |kind| (kind, name.to_owned());
    match name.split_once('_').map(|(kind, _)| kind) {
        Some("msg") => Vec::new(),
        Some("call") => vec![own(RowKind::Call), payload(name.to_owned())],
        Some("task") => vec![own(RowKind::Task)],
        Some("str") => vec![payload(name.to_owned()), payload(format!("{name}.replay"))],
        Some("sus") => {
            let apart = ["", ".system", ".task"].map(|what| payload(format!("{name}{what}")));
            [own(RowKind::Suspension)].into_iter().chain(apart).collect()
        }
        Some(_) | None => vec![own(RowKind::Item), own(RowKind::Progress), payload(name.to_owned())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_all_short_strings_of_a_text() {
        let mut found = BTreeSet::new();
        let long = "x".repeat(LONGEST + 1);
        names(&format!(r#"{{"a":["call_1",{{"$payload":"str_2"}},7,"{long}"]}}"#), &mut found);
        names("no JSON", &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["$payload", "a", "call_1", "str_2"]);
    }

    #[test]
    fn what_messages_consist_of_stays() {
        assert_eq!(rows_named("msg_1"), []);
        assert_eq!(rows_named("msg_1.ui"), []);
        assert!(rows_named("str_1").contains(&(RowKind::Payload, "str_1.replay".to_owned())));
    }
}
