//! Streams of recorded logs, cut anywhere: the events before and after the cut are the whole.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::ids::RunId;
use crate::domain::observation::{Observation, ObservationType};
use crate::http::doors::recorded::{LOGS, decode, log, runs, token, tokens};

fn client() -> ClientRun {
    ClientRun { thread: "t".into(), id: "theirs".to_owned(), speaks_v1: true, results: HashSet::new() }
}

fn segment(run: &RunId, start: i64, settled: i64) -> Segment {
    Segment { run: run.clone(), start, settled, answers: 0, has_snapshot: false }
}

/// The events of a model's reply that arrives as tokens of about `size` bytes.
fn heard(
    numbered: &mut NumberedEvents,
    run: &RunId,
    phase: &str,
    end: &Observation,
    size: usize,
) -> Vec<NumberedEvent> {
    let text = |name: &str| end.content[name].as_str().unwrap_or_default().to_owned();
    let stream = text("streamId");
    let thinking = tokens(run, &stream, &text("thinking"), phase, "THINKING", size);
    let answer = tokens(run, &stream, &format!("\n{}\n\n", text("text")), phase, "RESPONSE", size);
    thinking.iter().chain(&answer).flat_map(|token| numbered.token(token)).collect()
}

/// The rest of a stream, with tokens of about `size` bytes or from the log alone. Also the index of the observation
/// before which the stream ended.
fn rest(
    log: &[Observation],
    numbered: &mut NumberedEvents,
    size: Option<usize>,
) -> (Vec<NumberedEvent>, Option<usize>) {
    let run = numbered.segment().run.clone();
    let (mut events, mut phases) = (Vec::new(), BTreeMap::new());
    for (at, seen) in log.iter().enumerate() {
        if numbered.check_suspended_before(&decode(seen)) {
            events.extend(numbered.suspended(Vec::new()));
            return (events, Some(at));
        }
        let stream = seen.content["streamId"].as_str().unwrap_or_default().to_owned();
        if seen.kind == ObservationType::LlmStreamStart {
            phases.insert(stream.clone(), seen.content["phase"].as_str().unwrap_or_default().to_owned());
        }
        let is_heard = seen.kind == ObservationType::LlmStreamEnd && seen.run_id == run;
        if let Some(size) = size.filter(|_| is_heard && seen.seq > numbered.segment().start) {
            events.extend(heard(numbered, &run, &phases[&stream], seen, size));
        }
        events.extend(numbered.observation(&decode(seen)));
    }
    if !numbered.is_finished() {
        events.extend(numbered.suspended(Vec::new()));
    }
    (events, None)
}

/// Every stream of a run. A question ends a stream, and another one continues after the answer.
fn streams(log: &[Observation], run: &RunId, size: Option<usize>) -> Vec<Vec<NumberedEvent>> {
    let (mut all, mut start, mut settled) = (Vec::new(), 0, 0);
    loop {
        let mut numbered = NumberedEvents::new(client(), segment(run, start, settled));
        let mut events = if start == 0 { numbered.begin(None) } else { Vec::new() };
        let (more, next) = rest(log, &mut numbered, size);
        events.extend(more);
        all.push(events);
        let Some(next) = next else { return all };
        (start, settled) = (log[next].seq - 1, log[next].seq);
    }
}

/// What a client builds from the events: its texts, and all other events in order. Checks that everything that begins
/// ends.
fn made(events: &[NumberedEvent]) -> (BTreeMap<String, String>, Vec<Value>) {
    let (mut texts, mut others, mut open) = (BTreeMap::<String, String>::new(), Vec::new(), Vec::new());
    for NumberedEvent { data, .. } in events {
        let kind = data["type"].as_str().unwrap();
        let id = data["messageId"].as_str().unwrap_or_default().to_owned();
        match kind.strip_suffix("_START").or(kind.strip_suffix("_END")).or(kind.strip_suffix("_CONTENT")) {
            Some(what @ ("TEXT_MESSAGE" | "REASONING_MESSAGE" | "REASONING")) => {
                let known = (what.to_owned(), id.clone());
                if kind.ends_with("_START") {
                    assert!(!open.contains(&known), "{data}");
                    open.push(known);
                } else {
                    assert!(open.contains(&known), "{data}: {open:?}");
                    open.retain(|one| !kind.ends_with("_END") || *one != known);
                }
                *texts.entry(id).or_default() += data["delta"].as_str().unwrap_or_default();
            }
            Some(_) | None => others.push(data.clone()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    (texts, others)
}

fn behind(log: &[Observation], id: &str) -> Vec<NumberedEvent> {
    let mut numbered = NumberedEvents::resume_after(client(), id.parse().expect("an id of ours"));
    let mut events = if numbered.segment().start == 0 { numbered.begin(None) } else { Vec::new() };
    events.extend(rest(log, &mut numbered, None).0);
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_and_what_follows_it_are_the_whole(
        name in 0..LOGS.len(), size in 1..40_usize, cut in any::<prop::sample::Index>(),
    ) {
        let log = log(LOGS[name]);
        for run in runs(&log) {
            let replayed = streams(&log, &run, None);
            for (live, replayed) in streams(&log, &run, Some(size)).into_iter().zip(replayed) {
                let whole = made(&live);
                prop_assert_eq!(&whole, &made(&replayed));
                let at = cut.index(live.len());
                let id = live[at].id.as_ref().expect("every event has one");
                let joined: Vec<NumberedEvent> = live[..=at].iter().cloned().chain(behind(&log, id)).collect();
                prop_assert_eq!(&whole, &made(&joined), "{}", id);
                let id = joined.last().unwrap().id.as_ref().expect("every event has one");
                prop_assert_eq!(behind(&log, id), Vec::new(), "nothing follows the end");
            }
        }
    }
}

/// A log in which an attempt at the answer fails.
fn broken() -> (RunId, Vec<Observation>) {
    let run = RunId::from("run_1");
    let mut log = Vec::new();
    let mut add = |kind: &str, content: Value| {
        let seq = log.len() + 1;
        let seen = json!({
            "seq": seq, "id": format!("obs_{seq}"), "threadId": "t", "runId": run, "traceId": "", "timestamp": seq,
            "type": kind, "title": "", "content": content,
        });
        log.push(serde_json::from_value(seen).unwrap());
    };
    let start = |stream: &str, attempt: usize| json!({ "streamId": stream, "phase": "synthesis", "provider": "d", "model": "d", "attempt": attempt });
    add("LLM_STREAM_START", start("s1", 1));
    add("LLM_STREAM_ERROR", json!({ "streamId": "s1", "code": "broken", "message": "", "retryable": true }));
    add("LLM_STREAM_START", start("s2", 2));
    add("LLM_STREAM_END", json!({ "streamId": "s2", "text": "A whole answer." }));
    let message =
        json!({ "messageId": "m", "threadId": "t", "role": "AI", "content": "A whole answer.", "timestamp": 1 });
    add("FINAL_RESPONSE", json!({ "message": message }));
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    add(
        "RUN_FINISHED",
        json!({ "status": "completed", "totalDurationMs": 1, "llmCalls": 2, "toolCalls": 0, "usage": usage }),
    );
    (run, log)
}

#[test]
fn an_attempt_that_broke_off_is_ended_behind_a_cut() {
    let (run, log) = broken();
    let mut numbered = NumberedEvents::new(client(), segment(&run, 0, 0));
    let mut heard = numbered.begin(None);
    heard.extend(numbered.observation(&decode(&log[0])));
    heard.extend(numbered.token(&token(&run, "s1", 0, "Half an ", "synthesis", "RESPONSE")));
    let id = heard.last().unwrap().id.clone().unwrap();
    heard.extend(behind(&log, &id));
    let (texts, _) = made(&heard);
    assert_eq!(
        texts,
        BTreeMap::from([("s1", "Half an"), ("s2", "A whole answer.")].map(|(id, said)| (id.into(), said.into())))
    );
}

/// If the answer differs from its tokens, it is sent as a new message, also after a cut.
#[test]
fn an_answer_that_became_another_is_told_whole() {
    let (run, log) = broken();
    let mut numbered = NumberedEvents::new(client(), segment(&run, 0, 0));
    let mut heard = numbered.begin(None);
    for seen in &log[..3] {
        heard.extend(numbered.observation(&decode(seen)));
    }
    heard.extend(numbered.token(&token(&run, "s2", 0, "Another ", "synthesis", "RESPONSE")));
    let id = heard.last().unwrap().id.clone().unwrap();
    heard.extend(behind(&log, &id));
    let (texts, _) = made(&heard);
    assert_eq!(
        texts,
        BTreeMap::from([("s2", "Another"), ("m", "A whole answer.")].map(|(id, said)| (id.into(), said.into())))
    );
}

#[test]
fn an_id_is_read_back_and_no_other_text_is_one() {
    for text in ["run_1:r:0:0:0:w:3:1", "run_1:c:1:9:0:b:3:0;a:s1:12:cbf29ce484222325;t:s2:0:0;t:s3:7:1"] {
        assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
    }
    for wrong in ["", "7", "run_1:r:0:0:0:w:3", "run_1:x:0:0:0:w:3:1", "run_1:r:0:0:0:w:-:1", "run_1:r:0:0:0:w:3:1;x"] {
        assert_eq!(wrong.parse::<Cursor>().ok(), None, "{wrong}");
    }
}

#[test]
fn who_was_never_there_is_told_so() {
    let (demo, asked) = (log("demo"), log("asked"));
    let asks = asked.iter().position(|seen| seen.kind == ObservationType::AgentSuspended).expect("a question");
    // A finished run, and a suspended one.
    for log in [&demo[..], &asked[..=asks]] {
        let run = runs(log).remove(0);
        // An event, and a whole stream, that the log does not reach.
        for start in [0, 99_998] {
            let events = behind(log, &format!("{run}:r:{start}:0:0:w:99999:1"));
            assert_eq!(events.iter().map(|event| &event.data["code"]).collect::<Vec<_>>(), [&json!("invalid")]);
        }
    }
}

/// Also between the two events that begin a model's thoughts.
#[test]
fn thoughts_are_whole_behind_every_event() {
    let (run, mut log) = broken();
    log[3].content["thinking"] = json!("Shall it be whole? It shall.");
    let live = streams(&log, &run, Some(5)).remove(0);
    let whole = made(&live);
    assert!(whole.0.contains_key("thoughts-s2"), "{whole:?}");
    for (at, event) in live.iter().enumerate() {
        let id = event.id.as_ref().expect("every event has one");
        let joined: Vec<NumberedEvent> = live[..=at].iter().cloned().chain(behind(&log, id)).collect();
        assert_eq!(made(&joined), whole, "{id}");
    }
}
