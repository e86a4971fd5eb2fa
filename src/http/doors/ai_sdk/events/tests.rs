//! Recorded logs as chunks, compared with `tests/golden/ai_sdk/`; and what neither tokens nor a cut may change.

use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::domain::observation::Observation;
use crate::http::doors::ai_sdk::message::UiMessage;
use crate::http::doors::recorded::{LOGS, asks_approval, decode, fact, file, log, runs, times_out, token, tokens};

fn events(run: &RunId) -> MessageChunks {
    MessageChunks::new(MessageContext {
        thread: "t".into(),
        run: run.clone(),
        may_approve: true,
        urls: ConsoleUrls::of("https://pes.example", true),
    })
}

fn begun(run: &RunId) -> (MessageChunks, Vec<Chunk>) {
    let mut events = events(run);
    let chunks = events.begin(&[], &HashSet::new());
    (events, chunks)
}

fn message(chunks: &[Chunk]) -> UiMessage {
    let mut message = UiMessage::default();
    chunks.iter().for_each(|chunk| message.apply(chunk.clone()));
    message
}

#[test]
fn every_observation_comes_to_these_chunks() {
    let logs: Vec<(&str, Vec<Observation>)> = LOGS.iter().map(|name| (*name, log(name))).collect();
    let has = |kind: &ObservationType| logs.iter().any(|(_, log)| log.iter().any(|seen| seen.kind == *kind));
    let missing: Vec<_> = ObservationType::ALL.iter().filter(|kind| !has(kind)).collect();
    assert_eq!(missing, Vec::<&ObservationType>::new(), "the logs have every type");
    let folder = file("target/tmp/ai_sdk");
    fs::create_dir_all(&folder).unwrap();
    let mut changed = Vec::new();
    for (name, log) in logs {
        let mut written = String::new();
        for run in runs(&log) {
            let (mut events, chunks) = begun(&run);
            let mut line = |seq: i64, chunk: &Chunk| written += &format!("{}\n", json!({ "seq": seq, "chunk": chunk }));
            chunks.iter().for_each(|chunk| line(0, chunk));
            for observation in &log {
                events.observation(&decode(observation)).iter().for_each(|chunk| line(observation.seq, chunk));
            }
        }
        let name = format!("{name}.ndjson");
        fs::write(folder.join(&name), &written).unwrap();
        let golden = fs::read_to_string(file("tests/golden/ai_sdk").join(&name)).unwrap_or_default();
        if golden != written {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "tests/golden/ai_sdk is not target/tmp/ai_sdk: {changed:?}");
}

/// The chunks of a run for a client that is connected from its start.
fn live(log: &[Observation], run: &RunId, size: usize, lost: usize) -> Vec<Chunk> {
    let (mut events, mut chunks) = begun(run);
    let mut phases = std::collections::HashMap::new();
    let mut count = 0;
    for observation in log {
        let content = &observation.content;
        let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
        match observation.kind {
            ObservationType::LlmStreamStart => {
                phases.insert(text("streamId"), text("phase"));
            }
            ObservationType::LlmStreamEnd if observation.run_id == *run => {
                let (stream, phase) = (text("streamId"), &phases[&text("streamId")]);
                let thinking = tokens(run, &stream, &text("thinking"), phase, "THINKING", size);
                let answer = tokens(run, &stream, &format!("\n{}\n\n", text("text")), phase, "RESPONSE", size);
                for token in thinking.iter().chain(&answer) {
                    count += 1;
                    if count != lost {
                        chunks.extend(events.token(token));
                    }
                }
            }
            _ => {}
        }
        chunks.extend(events.observation(&decode(observation)));
    }
    chunks
}

/// Every begun part is ended, and no chunk refers to a part that is not open.
fn check(chunks: &[Chunk]) {
    let mut open = HashSet::new();
    for chunk in chunks {
        match chunk {
            Chunk::TextStart { id } | Chunk::ReasoningStart { id } => assert!(open.insert(id.clone()), "{chunk:?}"),
            Chunk::TextDelta { id, .. } | Chunk::ReasoningDelta { id, .. } => assert!(open.contains(id), "{chunk:?}"),
            Chunk::TextEnd { id } | Chunk::ReasoningEnd { id } => assert!(open.remove(id), "{chunk:?}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_bring_the_message_earlier_and_change_nothing(name in 0..LOGS.len(), size in 1..40_usize, lost in 0..60_usize) {
        let log = log(LOGS[name]);
        for run in runs(&log) {
            let (mut events, mut replayed) = begun(&run);
            replayed.extend(log.iter().flat_map(|observation| events.observation(&decode(observation))));
            let live = live(&log, &run, size, lost);
            check(&live);
            check(&replayed);
            prop_assert_eq!(message(&live).json(), message(&replayed).json());
        }
    }

    /// The client's copy of the message stops anywhere. Another stream brings it up to date.
    #[test]
    fn what_a_copy_lacks_is_told_when_it_goes_on(name in 0..LOGS.len(), heard in 0..140_i64, missed in 0..140_i64) {
        let log = log(LOGS[name]);
        for run in runs(&log) {
            let (mut events, mut copy) = begun(&run);
            let before = |observation: &&Observation| observation.seq <= heard;
            copy.extend(log.iter().filter(before).flat_map(|observation| events.observation(&decode(observation))));
            let known = calls(&message(&copy));
            let (mut events, after) = (super::tests::events(&run), heard + missed);
            log.iter().filter(|observation| observation.seq <= after).for_each(|seen| events.replay(&decode(seen)));
            if events.is_finished() {
                continue;
            }
            copy.extend(events.begin(&known, &HashSet::new()));
            let later = log.iter().filter(|observation| observation.seq > after);
            copy.extend(later.flat_map(|observation| events.observation(&decode(observation))));
            let (mut events, mut whole) = begun(&run);
            whole.extend(log.iter().flat_map(|observation| events.observation(&decode(observation))));
            let sorted = |chunks: &[Chunk]| {
                let mut states: Vec<(String, String)> =
                    calls(&message(chunks)).into_iter().map(|call| (call.id, call.state)).collect();
                states.sort();
                states
            };
            prop_assert_eq!(sorted(&copy), sorted(&whole));
            prop_assert_eq!(plan(&message(&copy)), plan(&message(&whole)));
        }
    }
}

fn plan(message: &UiMessage) -> Option<Value> {
    let message = message.json();
    message["parts"].as_array().unwrap().iter().find(|part| part["type"] == "data-plan").cloned()
}

fn calls(message: &UiMessage) -> Vec<KnownCall> {
    let message = message.json();
    let parts = message["parts"].as_array().unwrap().clone();
    let call = |part: &Value| {
        let text = |name: &str| part[name].as_str().map(str::to_owned);
        Some(KnownCall { id: text("toolCallId")?, state: text("state")? })
    };
    parts.iter().filter_map(call).collect()
}

#[test]
fn an_attempt_that_broke_off_leaves_its_part_and_another_begins() {
    let run = RunId::from("run_1");
    let (mut events, mut chunks) = begun(&run);
    let says = |stream, offset, data| token(&run, stream, offset, data, "synthesis", "RESPONSE");
    chunks.extend(events.token(&says("s1", 0, "\nHalf an ")));
    chunks.extend(events.token(&says("s2", 0, "A whole ")));
    chunks.extend(events.token(&says("s2", 8, "answer.\n\n")));
    chunks.extend(events.observation(&answer(&run, "A whole answer.")));
    check(&chunks);
    let texts: Vec<Value> = message(&chunks).json()["parts"].as_array().unwrap()[1..3].to_vec();
    assert_eq!(texts.iter().map(|part| &part["text"]).collect::<Vec<_>>(), ["Half an", "A whole answer."]);
}

fn answer(run: &RunId, text: &str) -> DecodedObservation {
    let message = json!({ "messageId": "msg_2", "threadId": "t", "role": "AI", "content": text, "timestamp": 1 });
    let beside = json!({
        "sources": [{ "sourceName": "Ours", "url": "https://a.example" }, { "url": "javascript:alert(1)" }],
        "suggestions": ["More?"],
    });
    fact(run, "FINAL_RESPONSE", json!({ "message": message, "uiMetadata": beside }))
}

#[test]
fn only_web_addresses_become_links() {
    let (mut events, _) = begun(&"run_1".into());
    let chunks: Vec<Value> = events.observation(&answer(&"run_1".into(), "So.")).iter().map(Chunk::json).collect();
    let links: Vec<&Value> = chunks.iter().filter(|chunk| chunk["type"] == "source-url").collect();
    assert_eq!(
        links,
        [&json!({ "type": "source-url", "sourceId": "source-0", "url": "https://a.example", "title": "Ours" })]
    );
    assert_eq!(chunks.last().unwrap()["data"], json!(["More?"]));
}

fn json(chunks: &[Chunk]) -> Vec<Value> {
    chunks.iter().map(Chunk::json).collect()
}

fn calls_tool(run: &RunId, arguments: &Value) -> DecodedObservation {
    let call = json!({ "callId": "call_1", "toolName": "send", "arguments": arguments });
    fact(run, "TOOL_CALL", json!({ "iteration": 1, "toolCalls": [call] }))
}

#[test]
fn what_is_approved_is_what_is_shown() {
    let run = RunId::from("run_1");
    let (mut events, _) = begun(&run);
    events.observation(&calls_tool(&run, &json!({ "to": "all" })));
    let chunks = json(&events.observation(&asks_approval(&run, json!({ "to": "all", "copies": 1 }))));
    let input = chunks.iter().find(|chunk| chunk["type"] == "tool-input-available").unwrap();
    assert_eq!(input["input"], json!({ "to": "all", "copies": 1 }));
}

#[test]
fn whoever_is_reminded_is_still_asked() {
    let run = RunId::from("run_1");
    for (policy, finish) in [("remind", Some("tool-calls")), ("deny", None)] {
        let (mut events, _) = begun(&run);
        events.observation(&asks_approval(&run, json!({})));
        events.observation(&times_out(&run, policy));
        let end = json(&events.suspended()).pop();
        assert_eq!(end.as_ref().and_then(|end| end["finishReason"].as_str()), finish, "{policy}");
    }
}

#[test]
fn a_call_is_told_once_and_so_is_its_end() {
    let run = RunId::from("run_1");
    let (mut events, _) = begun(&run);
    events.observation(&calls_tool(&run, &json!({})));
    assert_eq!(events.call_started(&run, &"call_1".into()).len(), 2);
    assert!(events.call_started(&run, &"call_1".into()).is_empty(), "another attempt");

    let result = json!({ "callId": "call_1", "toolName": "send", "status": "success", "output": 1, "durationMs": 1 });
    let ended = fact(&run, "TOOL_EXECUTION", result);
    for (state, told) in [("output-available", 0), ("input-available", 1)] {
        let mut events = super::tests::events(&run);
        events.replay(&calls_tool(&run, &json!({})));
        events.replay(&ended);
        let known = KnownCall { id: "call_1".to_owned(), state: state.to_owned() };
        let chunks = json(&events.begin(&[known], &HashSet::new()));
        let ends = chunks.iter().filter(|chunk| chunk["type"] == "tool-output-available").count();
        assert_eq!(ends, told, "{chunks:#?}");
    }
}

#[test]
fn nothing_is_told_of_another_run() {
    let (own, other) = (RunId::from("run_1"), RunId::from("run_2"));
    let (mut events, _) = begun(&own);
    assert!(events.token(&token(&other, "s1", 0, "Not yours.", "synthesis", "RESPONSE")).is_empty());
    assert!(events.observation(&answer(&other, "Not yours.")).is_empty());
    assert!(events.call_started(&other, &"call_1".into()).is_empty());
}
