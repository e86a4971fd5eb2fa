//! Recorded logs as events, compared with `tests/golden/agui/`; and what neither version may be told.

use std::fs;

use super::*;
use crate::domain::observation::{Observation, ObservationType};
use crate::http::doors::recorded::{LOGS, file, log, runs, told};

/// Every stream of the runs of a log: one that asks ends, and another goes on.
fn streams(log: &[Observation], is_one: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for run in runs(log) {
        let client = ClientRun { thread: "t".into(), id: "theirs".to_owned(), is_one };
        let mut events = AguiEvents::new(client, run.clone());
        all.extend(events.begin());
        for seen in log {
            let told = told(seen);
            let origin = Origin { at: seen.timestamp, seq: seen.seq, kind: seen.kind.as_str() };
            all.extend(events.observation(&origin, &told));
            if seen.kind == ObservationType::AgentSuspended {
                all.extend(events.suspended(Vec::new()));
                events.is_over = false;
            }
        }
    }
    all
}

#[test]
fn every_observation_comes_to_these_events() {
    let mut changed = Vec::new();
    for (version, is_one) in [("0", false), ("1", true)] {
        let folder = file("target/tmp/agui").join(version);
        fs::create_dir_all(&folder).unwrap();
        for name in LOGS {
            let written: String = streams(&log(name), is_one).iter().map(|event| format!("{event}\n")).collect();
            let file_name = format!("{name}.ndjson");
            fs::write(folder.join(&file_name), &written).unwrap();
            let golden = file("tests/golden/agui").join(version).join(&file_name);
            if fs::read_to_string(golden).unwrap_or_default() != written {
                changed.push(format!("{version}/{name}"));
            }
        }
    }
    assert!(changed.is_empty(), "tests/golden/agui is not target/tmp/agui: {changed:?}");
}

/// What its client checks: whatever begins ends, nothing ends that did not begin, and nothing is null that may be absent.
#[test]
fn streams_are_well_formed() {
    for (name, is_one) in LOGS.iter().flat_map(|name| [(name, false), (name, true)]) {
        let mut open: Vec<String> = Vec::new();
        for event in streams(&log(name), is_one) {
            let kind = event["type"].as_str().unwrap();
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let id = format!("{}{}{}", text("messageId"), text("toolCallId"), text("stepName"));
            for (start, end) in [
                ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END"),
                ("REASONING_START", "REASONING_END"),
                ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END"),
                ("TOOL_CALL_START", "TOOL_CALL_END"),
                ("STEP_STARTED", "STEP_FINISHED"),
            ] {
                let what = format!("{start} {id}");
                if kind == start {
                    assert!(!open.contains(&what), "{name}: {event}");
                    open.push(what);
                } else if kind == end {
                    assert!(open.contains(&what), "{name}: {event}");
                    open.retain(|known| *known != what);
                }
            }
            if kind == "RUN_FINISHED" {
                assert!(open.is_empty(), "{name}: {open:?}");
                assert!(is_one || event["outcome"]["type"] != "cancelled", "only 1.0 knows it");
            }
            assert!(event.get("metadata").is_none_or(Value::is_object), "{name}: {event}");
        }
    }
}
