//! The content of each type of observation, byte for byte.
//!
//! `facts.ndjson` holds one content of every shape of each type, as it is stored.

use std::sync::Arc;

use pes_engine::domain::facts::Fact;
use pes_engine::domain::observation::{Observation, ObservationType, Record};
use pes_engine::domain::payload::Payloads;
use pes_engine::history::fold::Fold;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: ObservationType,
    content: Value,
}

fn recorded() -> Vec<Line> {
    include_str!("facts.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_recorded_content_is_written_again_as_it_was() {
    for Line { kind, content } in recorded() {
        let fact = Fact::read(kind, &content).unwrap_or_else(|why| panic!("{}: {why}: {content}", kind.as_str()));
        assert_eq!(fact.kind(), kind);
        assert_eq!(serde_json::to_string(&fact).unwrap(), content.to_string(), "{}", kind.as_str());
    }
}

#[test]
fn every_type_of_observation_was_recorded() {
    let recorded = recorded();
    for kind in ObservationType::ALL {
        assert!(recorded.iter().any(|line| line.kind == *kind), "{}", kind.as_str());
    }
}

/// Checks every record of every test that drives the engine.
pub fn check(record: &Record) {
    let content = record.fact.content();
    let again = Fact::read(record.kind(), &content).unwrap_or_else(|why| panic!("{why}: {content}"));
    assert_eq!(again.content().to_string(), content.to_string(), "{}", record.kind().as_str());
}

/// Replaces every text under these names by a reference, as if it were large; the text is kept.
fn set_apart(value: &mut Value, payloads: &mut Payloads) {
    const TEXTS: [&str; 9] =
        ["query", "content", "plan", "rawOutput", "text", "thinking", "arguments", "output", "result"];
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if TEXTS.contains(&name.as_str()) && !member.is_null() {
                    let id = format!("p{}", payloads.len());
                    let whole = std::mem::replace(member, json!({ "$payload": id }));
                    payloads.insert(id.as_str().into(), Arc::new(whole));
                } else {
                    set_apart(member, payloads);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| set_apart(member, payloads)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn payloads_are_put_back_wherever_they_may_stand() {
    let mut apart = 0;
    for Line { kind, content } in recorded() {
        let (mut written, mut payloads) = (content.clone(), Payloads::new());
        set_apart(&mut written, &mut payloads);
        apart += payloads.len();
        let fact = Fact::read(kind, &written).unwrap_or_else(|why| panic!("{}: {why}: {written}", kind.as_str()));
        assert_eq!(fact.inlined(&payloads).content().to_string(), content.to_string(), "{}", kind.as_str());
    }
    assert!(apart > 50, "{apart} were set apart");
}

fn observation(kind: ObservationType, content: Value) -> Observation {
    Observation {
        seq: 7,
        id: "obs_7".into(),
        thread_id: "t1".into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: "trace".into(),
        timestamp: 70,
        kind,
        title: String::new(),
        content,
        metadata: None,
    }
}

#[test]
fn members_that_nobody_here_knows_pass_through() {
    for Line { kind, mut content } in recorded() {
        content["colour"] = json!("blue");
        assert!(Fact::read(kind, &content).is_ok(), "{}", kind.as_str());
        if !matches!(kind, ObservationType::Plan | ObservationType::PlanUpdate) {
            let whole = Fold::default().apply(&observation(kind, content.clone())).unwrap();
            assert_eq!(whole.to_string(), content.to_string());
        }
    }
    let item = json!({
        "id": "a", "description": "Do a", "status": "pending", "createdTimestamp": 1, "updatedTimestamp": 1,
        "colour": {"hue": 7},
    });
    let plan = json!({"plan": "p", "planVersion": 1, "rawOutput": "", "todoList": [item]});
    let mut fold = Fold::default();
    let whole = fold.apply(&observation(ObservationType::Plan, plan)).unwrap();
    assert_eq!(whole["todoList"][0], item);
    assert_eq!(fold.view()["todoList"][0]["colour"], json!({"hue": 7}));
}

#[test]
fn a_tool_that_returned_null_returned_something() {
    let content = json!({
        "callId": "call_1", "toolName": "echo", "status": "success", "output": null, "durationMs": 3,
    });
    let fact = Fact::read(ObservationType::ToolExecution, &content).unwrap();
    assert_eq!(fact.content().to_string(), content.to_string());
}

#[test]
fn a_content_that_cannot_be_read_is_said_and_changes_nothing() {
    let mut fold = Fold::default();
    let told = observation(ObservationType::Title, json!({"title": 7}));
    let refused = fold.apply(&told).unwrap_err().to_string();
    assert!(refused.starts_with("observation 7 of type TITLE cannot be read: "), "{refused}");
    assert_eq!(fold.view()["title"], "");
}
