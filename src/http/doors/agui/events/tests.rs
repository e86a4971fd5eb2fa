//! Recorded logs as events, compared with `tests/golden/agui/`; and which events a version must not get.

use std::fs;

use super::*;
use crate::domain::observation::{Observation, ObservationType};
use crate::http::doors::recorded::{LOGS, asks_approval, decode, fact, file, log, runs, times_out};

/// Every stream of a log's runs. A question ends a stream, and another one continues.
fn streams(log: &[Observation], speaks_v1: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for run in runs(log) {
        let client = ClientRun { thread: "t".into(), id: "theirs".to_owned(), speaks_v1, results: HashSet::new() };
        let mut events = AguiEvents::new(client, run.clone());
        all.extend(events.begin());
        for seen in log {
            let told = decode(seen);
            all.extend(events.observation(&told));
            if seen.kind == ObservationType::AgentSuspended {
                all.extend(events.suspended(Vec::new()));
                events.is_finished = false;
            }
        }
    }
    all
}

#[test]
fn every_observation_comes_to_these_events() {
    let mut changed = Vec::new();
    for (version, speaks_v1) in [("0", false), ("1", true)] {
        let folder = file("target/tmp/agui").join(version);
        fs::create_dir_all(&folder).unwrap();
        for name in LOGS {
            let written: String = streams(&log(name), speaks_v1).iter().map(|event| format!("{event}\n")).collect();
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

/// The checks of AG-UI's own client: everything that begins ends, nothing ends that did not begin, and optional members
/// are absent instead of null.
#[test]
fn streams_are_well_formed() {
    for (name, speaks_v1) in LOGS.iter().flat_map(|name| [(name, false), (name, true)]) {
        let mut open: Vec<String> = Vec::new();
        for event in streams(&log(name), speaks_v1) {
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
                assert!(speaks_v1 || event["outcome"]["type"] != "cancelled", "only 1.0 knows it");
            }
            assert!(event.get("metadata").is_none_or(Value::is_object), "{name}: {event}");
        }
    }
}

/// A stream that begins in the middle of a run: it ends nothing that it did not begin, shows the plan, and counts only
/// the usage since its start.
#[test]
fn a_stream_that_begins_later_stands_alone() {
    for name in LOGS {
        let log = log(name);
        for (run, cut) in runs(&log).iter().flat_map(|run| (0..log.len()).map(move |cut| (run, cut))) {
            let client =
                ClientRun { thread: "t".into(), id: "theirs".to_owned(), speaks_v1: true, results: HashSet::new() };
            let mut events = AguiEvents::new(client, run.clone());
            log[..cut].iter().for_each(|seen| events.replay(&decode(seen)));
            if events.is_finished() {
                continue;
            }
            let beginning = events.begin();
            let has_items = !beginning[0]["snapshot"]["todoList"].as_array().unwrap().is_empty();
            assert_eq!(beginning.iter().any(|event| event["type"] == "ACTIVITY_SNAPSHOT"), has_items, "{name} {cut}");
            let (mut begun, mut took) = (Vec::new(), 0);
            for seen in &log[cut..] {
                let heard = decode(seen);
                if let (true, ObservationContent::Fact(Fact::LlmStreamMetadata(body))) =
                    (heard.run == *run, &heard.content)
                {
                    took += body.input_tokens + body.output_tokens;
                }
                for event in events.observation(&heard) {
                    let what = format!("{}{}", event["stepName"], event["subagentRunId"]);
                    match event["type"].as_str().unwrap() {
                        "STEP_STARTED" | "SUBAGENT_STARTED" => begun.push(what),
                        "STEP_FINISHED" | "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                            assert!(begun.contains(&what), "{name} {cut}: {event}");
                        }
                        "RUN_FINISHED" => {
                            let counted = event["usage"].as_array().into_iter().flatten();
                            let counted: u64 = counted.filter_map(|entry| entry["totalTokens"].as_u64()).sum();
                            assert_eq!(counted, took, "{name} {cut}");
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

fn of_run(run: &RunId) -> AguiEvents {
    AguiEvents::new(
        ClientRun { thread: "t".into(), id: "theirs".to_owned(), speaks_v1: true, results: HashSet::new() },
        run.clone(),
    )
}

#[test]
fn whoever_is_reminded_is_still_asked() {
    let run = RunId::from("run_1");
    for (policy, interrupts) in [("remind", 1), ("deny", 0)] {
        let mut events = of_run(&run);
        events.observation(&asks_approval(&run, json!({})));
        events.observation(&times_out(&run, policy));
        let end = events.suspended(Vec::new()).pop().unwrap_or_default();
        let asked = end["outcome"]["interrupts"].as_array().map_or(0, Vec::len);
        assert_eq!(asked, interrupts, "{policy}");
    }
}

fn starts(run: &RunId, stream: &str, purpose: Option<&str>) -> DecodedObservation {
    let mut content = json!({
        "streamId": stream, "phase": "synthesis", "provider": "p", "model": "m", "attempt": 1, "iteration": 1,
    });
    if let Some(purpose) = purpose {
        content["purpose"] = json!(purpose);
    }
    fact(run, "LLM_STREAM_START", content)
}

/// The id of the answer's message after these observations.
fn id_of_answer(run: &RunId, before: &[DecodedObservation]) -> Value {
    let message = json!({ "messageId": "msg_2", "threadId": "t", "role": "AI", "content": "So.", "timestamp": 1 });
    let mut events = of_run(run);
    for told in before {
        events.observation(told);
    }
    let told = events.observation(&fact(run, "FINAL_RESPONSE", json!({ "message": message })));
    told.iter().find(|event| event["type"] == "TEXT_MESSAGE_START").unwrap()["messageId"].clone()
}

/// Tokens may have brought the answer before, so its id is that of the stream which wrote it, if one did.
#[test]
fn an_answer_has_the_id_of_the_stream_that_wrote_it() {
    let run = RunId::from("run_1");
    let failed = json!({ "streamId": "s1", "code": "broken", "message": "", "retryable": true });
    let failed = || fact(&run, "LLM_STREAM_ERROR", failed.clone());
    let written = id_of_answer(&run, &[starts(&run, "s1", None)]);
    let own = id_of_answer(&run, &[]);
    assert_ne!(written, own);
    assert_eq!(id_of_answer(&run, &[starts(&run, "s1", None), starts(&run, "s2", Some("summary"))]), written);
    assert_eq!(id_of_answer(&run, &[starts(&run, "s1", None), failed()]), own, "nothing of it was the answer");
}

fn task(run: &RunId, status: &str) -> DecodedObservation {
    let content = json!({
        "taskId": "task_1", "agentId": "travel", "taskType": "book", "status": status, "submittedAt": 1,
        "deadline": 9, "callId": "call_1",
    });
    fact(run, "A2A_TASK", content)
}

#[test]
fn a_task_of_another_agent_begins_and_ends_once() {
    let run = RunId::from("run_1");
    let types_for = |statuses: &[&str]| {
        let mut events = of_run(&run);
        let mut all: Vec<Value> = statuses.iter().flat_map(|status| events.observation(&task(&run, status))).collect();
        all.extend(events.interrupted("draining", ""));
        all.retain(|event| event["type"].as_str().unwrap().starts_with("SUBAGENT"));
        all.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let whole = ["SUBAGENT_STARTED", "SUBAGENT_FINISHED"];
    assert_eq!(types_for(&["working", "working", "completed", "completed"]), whole);
    assert_eq!(types_for(&["working", "failed", "completed"]), ["SUBAGENT_STARTED", "SUBAGENT_ERROR"]);
    assert_eq!(types_for(&["working"]), whole, "it goes on without the stream");
}

#[test]
fn a_stream_that_ends_early_says_whether_another_may_tell_the_rest() {
    for (code, may) in [("draining", true), ("gap", true), ("not_found", false)] {
        let end = of_run(&"run_1".into()).interrupted(code, "").pop().unwrap();
        assert_eq!((&end["type"], &end["metadata"]["pes"]["retryable"]), (&json!("RUN_ERROR"), &json!(may)), "{code}");
    }
}
