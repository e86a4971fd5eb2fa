//! Every type of observation as parts, compared with `tests/golden/openai/`; and what tokens may not change.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::http::doors::recorded::{decode, of_every_type};

const CHAT: &str = include_str!("../../../../../../tests/golden/openai/chat.txt");

fn events(open: Vec<AskedQuestion>) -> CompletionEvents {
    CompletionEvents::new("run_1".into(), open, ConsoleUrls::of("https://pes.example", true))
}

#[test]
fn every_observation_comes_to_these_pieces() {
    let log = of_every_type();
    let known: Vec<_> = ObservationType::ALL.iter().filter(|kind| !log.iter().any(|it| it.kind == **kind)).collect();
    assert_eq!(known, Vec::<&ObservationType>::new(), "the log has every type");
    let (mut events, mut written) = (events(Vec::new()), String::new());
    for observation in &log {
        written += &format!("{} {}\n", observation.seq, observation.kind.as_str());
        for piece in events.observation(&decode(observation)) {
            written += &format!("    {piece:?}\n");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp/openai-chat.txt");
    std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp")).unwrap();
    std::fs::write(path, &written).unwrap();
    assert!(written == CHAT, "tests/golden/openai/chat.txt is not {path}");
}

fn token(stream: &str, offset: usize, data: &str, kind: &str) -> Token {
    let phase = kind.split('_').next().unwrap().to_lowercase();
    serde_json::from_value(json!({
        "type": "TOKEN", "data": data, "tokenType": kind, "phase": phase, "streamId": stream, "offset": offset,
        "threadId": "t", "runId": "run_1", "traceId": "",
    }))
    .unwrap()
}

fn observation(kind: &str, content: Value) -> DecodedObservation {
    DecodedObservation::decode(
        serde_json::from_value(json!({
            "seq": 1, "id": "obs_1", "threadId": "t", "runId": "run_1", "traceId": "", "timestamp": 1, "type": kind,
            "title": "", "content": content,
        }))
        .unwrap(),
    )
    .unwrap()
}

fn answer(text: &str) -> DecodedObservation {
    let message = json!({ "messageId": "msg_2", "threadId": "t", "role": "AI", "content": text, "timestamp": 1 });
    observation("FINAL_RESPONSE", json!({ "message": message }))
}

fn content(pieces: &[CompletionPart]) -> String {
    pieces
        .iter()
        .filter_map(|piece| if let CompletionPart::Content(text) = piece { Some(text.as_str()) } else { None })
        .collect()
}

#[test]
fn after_an_attempt_that_broke_off_the_answer_begins_anew() {
    let mut events = events(Vec::new());
    let mut pieces = events.token(&token("s1", 0, "\nHalf an ", "SYNTHESIS_LLM_RESPONSE"));
    pieces.extend(events.token(&token("s2", 0, "A whole ", "SYNTHESIS_LLM_RESPONSE")));
    pieces.extend(events.token(&token("s2", 8, "answer.\n\n", "SYNTHESIS_LLM_RESPONSE")));
    pieces.extend(events.observation(&answer("A whole answer.")));
    assert_eq!(content(&pieces), "Half an\n\n---\n\nA whole answer.");
}

#[test]
fn thoughts_of_two_streams_do_not_mix_and_are_told_once() {
    let mut events = events(Vec::new());
    let thinking = "EXECUTION_LLM_THINKING";
    let mut pieces = events.token(&token("s1", 0, "one ", thinking));
    pieces.extend(events.token(&token("s2", 0, "two", thinking)));
    pieces.extend(events.token(&token("s1", 4, "more", thinking)));
    for (stream, text) in [("s2", "two"), ("s1", "one more")] {
        // In the log, a reply comes before its thoughts.
        let end = json!({ "streamId": stream, "text": "" });
        pieces.extend(events.observation(&observation("LLM_STREAM_END", end)));
        let body = json!({ "streamId": stream, "phase": "execution", "text": text });
        pieces.extend(events.observation(&observation("THOUGHTS", body)));
    }
    let told: Vec<String> = pieces.into_iter().map(|piece| format!("{piece:?}")).collect();
    assert_eq!(told, [r#"Reasoning("one ")"#, r#"Reasoning("more")"#, r#"Reasoning("two\n")"#, r#"Reasoning("\n")"#]);
}

/// A subscription during a model call has the text so far of its stream. If the call ends before the log is read, the
/// log is sent first.
#[test]
fn tokens_of_thoughts_that_the_log_has_brought_are_not_told_again() {
    let mut events = events(Vec::new());
    let body = json!({ "streamId": "s1", "phase": "execution", "text": "one more" });
    let mut pieces = events.observation(&observation("THOUGHTS", body));
    let error = json!({ "streamId": "s2", "code": "broken", "message": "", "retryable": true });
    pieces.extend(events.observation(&observation("LLM_STREAM_ERROR", error)));
    for stream in ["s1", "s2", "s3"] {
        pieces.extend(events.token(&token(stream, 0, stream, "EXECUTION_LLM_THINKING")));
    }
    let told: Vec<String> = pieces.into_iter().map(|piece| format!("{piece:?}")).collect();
    assert_eq!(told, [r#"Reasoning("one more\n")"#, r#"Reasoning("s3")"#], "later thoughts come live");
}

#[test]
fn thoughts_that_came_before_an_answer_leave_nothing_to_tell_after_it() {
    let mut events = events(Vec::new());
    let mut pieces = events.token(&token("s1", 0, "Two and two.", "SYNTHESIS_LLM_THINKING"));
    pieces.extend(events.token(&token("s1", 0, "Four.", "SYNTHESIS_LLM_RESPONSE")));
    let body = json!({ "streamId": "s1", "phase": "synthesis", "text": "Two and two." });
    pieces.extend(events.observation(&observation("THOUGHTS", body)));
    pieces.extend(events.observation(&answer("Four.")));
    let expected = [CompletionPart::Reasoning("Two and two.".to_owned()), CompletionPart::Content("Four.".to_owned())];
    assert_eq!(pieces, expected);
}

/// The questions that were read before the log was may be in the part of it that follows.
#[tokio::test]
async fn a_question_of_a_running_tool_ends_a_completion_also_from_before_it_and_is_asked_once() {
    let question = json!({
        "suspensionId": "sus_1", "kind": "input", "message": "Your colour?", "whileRunning": true,
        "feedbackSchema": { "inputType": "text", "prompt": "Your colour?" },
    });
    let asked: AskedQuestion = serde_json::from_value(question.clone()).unwrap();
    let expected = question::text(&asked, ConsoleUrls::of("https://pes.example", true).as_ref());
    let mut before = events(vec![asked.clone()]);
    let mut after = events(vec![asked.clone()]);
    let mut new = events(Vec::new());
    assert!(new.project(RunFrame::CaughtUp).await.is_empty());
    for pieces in [
        before.project(RunFrame::CaughtUp).await,
        after.observation(&observation("AGENT_SUSPENDED", question.clone())),
        new.observation(&observation("AGENT_SUSPENDED", question)),
    ] {
        assert_eq!(content(&pieces), expected);
        assert_eq!(pieces.last(), Some(&CompletionPart::Finished(Finish::Stop)));
    }
}

proptest! {
    /// However the tokens come, and whichever of them are lost, the text is the stored answer.
    #[test]
    fn what_is_sent_is_the_stored_answer(
        text in "[a-c \n]{1,40}",
        cuts in prop::collection::vec(0usize..40, 0..8),
        lost in prop::option::of(0usize..8),
    ) {
        let mut ends: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).chain([text.len()]).collect();
        ends.sort_unstable();
        let (mut events, mut pieces, mut from) = (events(Vec::new()), Vec::new(), 0);
        for (at, end) in ends.into_iter().enumerate() {
            if lost != Some(at) {
                pieces.extend(events.token(&token("s1", from, &text[from..end], "SYNTHESIS_LLM_RESPONSE")));
            }
            from = end;
        }
        pieces.extend(events.observation(&answer(text.trim())));
        prop_assert_eq!(content(&pieces), text.trim());
    }
}
