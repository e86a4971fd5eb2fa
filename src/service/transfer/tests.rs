//! If any line of a file is changed or cut off, the error names that line.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::archive::{self, Archive};
use super::lines::{Invalid, Reader, Writer};
use crate::domain::payload;
use crate::engine::step::RowKind;

const STATE_BYTES: usize = 1_000;

fn header() -> Value {
    json!({ "format": "pes-thread/1", "version": "0", "threadId": "t", "exportedAt": 3, "createdAt": 1, "core": "pes",
        "profile": {}, "minSeq": 1, "lastSeq": 2 })
}

fn observation(seq: i64, content: Value) -> Value {
    json!({ "observation": { "seq": seq, "id": format!("obs_{seq}"), "threadId": "t", "runId": "run_1", "traceId": "",
        "timestamp": seq, "type": "TITLE", "title": "", "content": content } })
}

fn message(text: &str) -> Value {
    json!({ "message": { "messageId": "m", "threadId": "t", "role": "USER", "content": text, "timestamp": 1 } })
}

/// A file of these lines, with its last line.
fn file(lines: &[Value]) -> Vec<u8> {
    let (mut writer, mut text) = (Writer::default(), Vec::new());
    lines.iter().for_each(|line| writer.write(line, &mut text));
    writer.write(&json!({ "end": writer.end() }), &mut text);
    text
}

fn whole() -> Vec<Value> {
    vec![
        header(),
        observation(1, json!({ "title": "Grüße" })),
        observation(2, json!({ "title": "two" })),
        message("hello"),
        json!({ "agentState": { "data": { "a": 1 }, "version": 1 } }),
        json!({ "audit": { "at": 1, "actor": "ann", "action": "resume", "detail": null } }),
        json!({ "usage": { "run": "run_1" }, "id": "u1", "at": 7 }),
    ]
}

fn read(text: &[u8]) -> Result<Archive, Invalid> {
    archive::read(text, STATE_BYTES, Some("copy".into()))
}

fn refused(lines: &[Value]) -> Invalid {
    read(&file(lines)).map(drop).unwrap_err()
}

fn line_of(text: &[u8], at: usize) -> u64 {
    1 + text[..at].iter().filter(|byte| **byte == b'\n').count() as u64
}

#[test]
fn what_is_whole_is_read() {
    let archive = read(&file(&whole())).unwrap();
    assert_eq!((archive.log.len(), archive.messages.len(), archive.audit.len()), (1, 1, 1));
    assert_eq!(archive.rows.iter().map(|row| (row.kind, row.ord)).collect::<Vec<_>>(), [(RowKind::ImportedUsage, 7)]);
    assert_eq!(archive.agent_state.unwrap().version, 1);
}

proptest! {
    #[test]
    fn a_changed_byte_is_refused_with_its_line(at in any::<prop::sample::Index>(), by in 1_u8..) {
        let text = file(&whole());
        let mut changed = text.clone();
        let at = at.index(text.len());
        changed[at] ^= by;
        prop_assert_eq!(read(&changed).map(drop).unwrap_err().line, line_of(&text, at));
    }

    #[test]
    fn what_was_cut_off_is_refused_with_the_line_where_it_ends(at in any::<prop::sample::Index>()) {
        let text = file(&whole());
        let at = at.index(text.len());
        prop_assert_eq!(read(&text[..at]).map(drop).unwrap_err().line, line_of(&text, at));
    }

    #[test]
    fn what_was_added_or_left_out_is_refused_with_its_line(at in any::<prop::sample::Index>(), byte: u8) {
        let text = file(&whole());
        let at = at.index(text.len());
        let mut longer = text.clone();
        longer.insert(at, byte);
        if longer != text {
            prop_assert_eq!(read(&longer).map(drop).unwrap_err().line, line_of(&text, at));
        }
        let mut shorter = text.clone();
        let gone = shorter.remove(at);
        // Removing either of two equal adjacent bytes gives the same file.
        let lines = [line_of(&text, at), line_of(&text, at) + u64::from(gone == b'\n')];
        prop_assert!(lines.contains(&read(&shorter).map(drop).unwrap_err().line));
    }
}

#[test]
fn lines_that_are_left_out_repeated_or_exchanged_are_refused() {
    let text = file(&whole());
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for n in 0..lines.len() - 1 {
        let mut without = lines.clone();
        without.remove(n);
        assert_eq!(read(&without.concat()).map(drop).unwrap_err().line, n as u64 + 1);
        let mut twice = lines.clone();
        twice.insert(n, lines[n]);
        assert_eq!(read(&twice.concat()).map(drop).unwrap_err().line, n as u64 + 2);
        let mut exchanged = lines.clone();
        exchanged.swap(n, n + 1);
        assert_eq!(read(&exchanged.concat()).map(drop).unwrap_err().line, n as u64 + 1);
    }
    assert_eq!(read(&[&text[..], b"{}\n"].concat()).map(drop).unwrap_err().line, lines.len() as u64 + 1);
    assert_eq!(read(b"").map(drop).unwrap_err().line, 1);
}

/// A file with correct hashes may still not come from us.
#[test]
fn what_does_not_fit_together_is_refused_with_its_line() {
    let changed = |n: usize, line: Value| {
        let mut lines = whole();
        lines[n] = line;
        refused(&lines)
    };
    let wrong = |n: usize, line: Value, why: &str| {
        let Invalid { line: at, why: said } = changed(n, line);
        assert_eq!(at, n as u64 + 1, "{said}");
        assert!(said.contains(why), "{said}");
    };
    wrong(0, json!({ "format": "pes-thread/2" }), "format");
    let mut compacted = header();
    compacted["minSeq"] = 2.into();
    wrong(0, compacted, "`base`");
    wrong(2, observation(3, json!({ "title": "two" })), "its seq is 3, not 2");
    wrong(2, message("early"), "the observation 2 should stand here");
    wrong(2, observation(2, json!({ "titel": "two" })), "missing field");
    let mut anothers = observation(2, json!({ "title": "two" }));
    anothers["observation"]["threadId"] = "other".into();
    wrong(2, anothers, "`other`");
    let mut plan = observation(2, json!({ "title": "two" }));
    plan["recorded"] = json!({});
    wrong(2, plan, "`recorded`");
    wrong(3, json!({ "nothing": 1 }), "unknown field");
    wrong(4, json!({ "agentState": { "data": "x".repeat(STATE_BYTES), "version": 1 } }), "at most 1000 bytes");
    wrong(6, message("late"), "wrong place");
    wrong(6, json!({ "end": { "lines": 6, "sha256": "" } }), "not what it says");
    let mut twice = whole();
    twice.push(twice[6].clone());
    assert_eq!(refused(&twice), Invalid { line: 8, why: "another line has the usage `u1`".to_owned() });
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    wrong(3, json!({ "message": deep }), "nest deeper");
}

/// After the greatest number no commit would find one.
#[test]
fn a_header_that_no_server_writes_is_refused() {
    let mut last = header();
    (last["minSeq"], last["lastSeq"], last["base"]) = (i64::MAX.into(), (i64::MAX - 1).into(), json!({}));
    let mut deep = header();
    deep["profile"]["metadata"] = (0..100).fold(json!({}), |inner, _| json!({ "in": inner }));
    let mut asks = header();
    asks["later"] = json!(["x".repeat(5_000)]);
    for (header, why) in [(last, "`lastSeq`"), (deep, "nest deeper"), (asks, "`later`")] {
        let mut lines = whole();
        lines[0] = header;
        let refused = refused(&lines);
        assert!(refused.line == 1 && refused.why.contains(why), "{refused:?}");
    }
}

/// A plan is stored as its changes, and must equal the plan that readers were shown.
#[test]
fn a_plan_that_is_not_what_was_recorded_of_it_is_refused() {
    let mut lines = whole();
    let recorded = json!({ "plan": "P", "planVersion": 1, "rawOutput": "", "changes": [] });
    let mut plan = observation(2, json!({ "plan": "P", "planVersion": 1, "todoList": [], "rawOutput": "" }));
    plan["observation"]["type"] = "PLAN".into();
    plan["recorded"] = recorded;
    lines[2] = plan.clone();
    read(&file(&lines)).unwrap();
    plan["observation"]["content"]["plan"] = "Q".into();
    lines[2] = plan;
    assert_eq!(refused(&lines).line, 3);
}

/// A file's author must not get access to a payload by a reference in it.
#[test]
fn what_looks_like_a_reference_is_stored_as_the_value_that_it_is() {
    let forged = json!({ "$payload": "secret" });
    let mut lines = whole();
    lines[2] = observation(2, json!({ "title": "two", "more": [forged] }));
    let archive = read(&file(&lines)).unwrap();
    let stored = archive.rows.iter().find(|row| row.kind == RowKind::Payload).unwrap();
    assert_eq!(stored.body, forged.to_string());
    assert_ne!(stored.id, "secret");
    let mut named = Vec::new();
    payload::references(&serde_json::from_str(&archive.log[0].body).unwrap(), &mut named);
    assert_eq!(named.iter().map(|id| id.as_str()).collect::<Vec<_>>(), [stored.id.as_str()]);
}

#[test]
fn a_line_is_json_with_its_sum_in_it() {
    let text = file(&whole());
    let mut reader = Reader::new(&text);
    let first = text.split(|byte| *byte == b'\n').next().unwrap();
    let shown: Value = serde_json::from_slice(first).unwrap();
    assert_eq!(shown["sum"].as_str().unwrap().len(), 32);
    assert_eq!(reader.next().unwrap().unwrap().0, header());
}
