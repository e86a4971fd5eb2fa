//! Recorded logs, for the tests of projections.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::told::ToldFact;
use crate::domain::frame::Token;
use crate::domain::ids::RunId;
use crate::domain::observation::Observation;

/// Logs of whole stories; together they have every type of observation.
pub(super) const LOGS: [&str; 15] = [
    "again",
    "asked",
    "changed",
    "delegated",
    "demo",
    "doubt",
    "edited",
    "expired",
    "failed",
    "forked",
    "hostile",
    "refused",
    "retried",
    "slow",
    "stepped",
];

/// A path below the sources.
pub(super) fn file(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(super) fn log(name: &str) -> Vec<Observation> {
    let text = fs::read_to_string(file(format!("tests/golden/console/{name}.ndjson"))).expect("a recorded log");
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        serde_json::from_value(line["observation"].clone()).expect("an observation")
    };
    text.lines().map(read).collect()
}

/// One short log with an observation of every type.
pub(super) fn of_every_type() -> Vec<Observation> {
    let text = fs::read_to_string(file("tests/golden/openai/log.json")).expect("a recorded log");
    serde_json::from_str(&text).expect("observations")
}

pub(super) fn told(observation: &Observation) -> ToldFact {
    ToldFact::of(observation.clone()).expect("it can be read")
}

/// The runs of a log, in the order in which they are told of.
pub(super) fn runs(log: &[Observation]) -> Vec<RunId> {
    let mut runs = Vec::new();
    for observation in log {
        if !observation.run_id.as_str().is_empty() && !runs.contains(&observation.run_id) {
            runs.push(observation.run_id.clone());
        }
    }
    runs
}

/// A piece of what a model says in this phase; `kind` is `RESPONSE` or `THINKING`.
pub(super) fn token(run: &RunId, stream: &str, offset: usize, data: &str, phase: &str, kind: &str) -> Token {
    let token_type = format!("{}_LLM_{kind}", phase.to_uppercase());
    serde_json::from_value(json!({
        "type": "TOKEN", "data": data, "tokenType": token_type, "phase": phase, "streamId": stream, "offset": offset,
        "threadId": "t", "runId": run, "traceId": "",
    }))
    .expect("a token")
}

/// A text in pieces of about so many bytes.
pub(super) fn tokens(run: &RunId, stream: &str, text: &str, phase: &str, kind: &str, size: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut offset, mut rest) = (0, text);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
        tokens.push(token(run, stream, offset, piece, phase, kind));
        offset += piece.len();
        rest = later;
    }
    tokens
}
