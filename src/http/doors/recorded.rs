//! Recorded logs for the tests of the doors' projections.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::frames::DecodedObservation;
use crate::domain::frame::Token;
use crate::domain::ids::RunId;
use crate::domain::observation::Observation;

/// Logs of complete scenarios. Together they contain every type of observation.
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

/// A path relative to the crate's root.
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

pub(super) fn decode(observation: &Observation) -> DecodedObservation {
    DecodedObservation::decode(observation.clone()).expect("it can be read")
}

/// An observation that is in no recorded log.
pub(super) fn fact(run: &RunId, kind: &str, content: Value) -> DecodedObservation {
    let observation = json!({
        "seq": 1, "id": "obs_1", "threadId": "t", "runId": run, "traceId": "", "timestamp": 1, "type": kind, "title": "",
        "content": content,
    });
    decode(&serde_json::from_value(observation).expect("an observation"))
}

/// The suspension `sus_1`: approval is asked for the call `call_1` with these arguments.
pub(super) fn asks_approval(run: &RunId, arguments: Value) -> DecodedObservation {
    let content = json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "" },
        "callId": "call_1", "toolName": "send", "toolInput": arguments,
    });
    fact(run, "AGENT_SUSPENDED", content)
}

/// The suspension `sus_1` expires under this policy.
pub(super) fn times_out(run: &RunId, policy: &str) -> DecodedObservation {
    fact(run, "SUSPENSION_TIMEOUT", json!({ "suspensionId": "sus_1", "policy": policy }))
}

/// The runs of a log, in order of their first observation.
pub(super) fn runs(log: &[Observation]) -> Vec<RunId> {
    let mut runs = Vec::new();
    for observation in log {
        if !observation.run_id.as_str().is_empty() && !runs.contains(&observation.run_id) {
            runs.push(observation.run_id.clone());
        }
    }
    runs
}

/// One token of a model's output in this phase. `kind` is `RESPONSE` or `THINKING`.
pub(super) fn token(run: &RunId, stream: &str, offset: usize, data: &str, phase: &str, kind: &str) -> Token {
    let token_type = format!("{}_LLM_{kind}", phase.to_uppercase());
    serde_json::from_value(json!({
        "type": "TOKEN", "data": data, "tokenType": token_type, "phase": phase, "streamId": stream, "offset": offset,
        "threadId": "t", "runId": run, "traceId": "",
    }))
    .expect("a token")
}

/// A text as tokens of about `size` bytes.
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
