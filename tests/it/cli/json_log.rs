//! The log as JSON, also of what ends the process.

use std::path::Path;

use serde_json::{Map, Value};

use super::run;
use super::serving::text;

/// The exit code of a server that does not start, and its log, of which each line is JSON.
fn log(folder: &Path, variables: &[(&str, &str)]) -> (Option<i32>, Vec<Map<String, Value>>) {
    let variables = [&[("PES_LOG_FORMAT", "json")][..], variables].concat();
    let output = run(folder, &["--port", "0"], &variables);
    let said = text(&output.stderr);
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (output.status.code(), said.lines().map(line).collect())
}

#[test]
fn an_error_that_ends_the_server_is_a_line_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plain"), "").unwrap();
    let (code, log) = log(folder.path(), &[("PES_DATA_DIR", "plain")]);
    let last = log.last().expect("it says why");
    let why = "database: plain cannot be used: it is no folder; name one with PES_DATA_DIR.";
    assert_eq!((code, &last["level"], &last["message"]), (Some(9), &"ERROR".into(), &why.into()));
}

/// The number of a failpoint that is none lets the first one panic.
#[test]
fn a_panic_is_a_line_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let panics = [("PES_FAILPOINT", "sqlite.created@none"), ("PES_FAILPOINT_PIPE", "pipe")];
    let (code, log) = log(folder.path(), &panics);
    let message = |line: &Map<String, Value>| line["message"].as_str().unwrap_or_default().to_owned();
    let line = log.iter().find(|line| message(line).starts_with("panicked: PES_FAILPOINT is name[@n]: "));
    let line = line.expect("the panic is logged");
    assert!(line["place"].as_str().is_some_and(|place| place.starts_with("src/failpoint.rs:")), "{line:?}");
    assert_eq!((code, &line["level"]), (Some(101), &"ERROR".into()));
}
