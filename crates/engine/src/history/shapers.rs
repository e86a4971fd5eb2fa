//! Who requested or edited the work that a thread has still to do, read from its stored head.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    shapers: Vec<String>,
}

/// Who requested or edited what the next run finds; empty if the head's core stores no such names.
pub fn of_next_run(head: &str) -> Vec<String> {
    serde_json::from_str::<Stored>(head).unwrap_or_default().shapers
}
