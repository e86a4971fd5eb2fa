//! The task events that a run's observations produce.

use serde_json::{Value, json};

use super::task_events::TaskEvents;
use super::types::{Content, StreamEvent, TaskState};
use crate::domain::facts::Fact;
use crate::domain::frame::Token;
use crate::domain::observation::ObservationType;

fn task_events() -> TaskEvents {
    TaskEvents::new("run_1", "thr_1", TaskState::Submitted, Vec::new())
}

/// The observations of a run.
struct Heard {
    run: &'static str,
    fact: Fact,
}

fn seen(kind: &str, content: Value) -> Heard {
    let kind = ObservationType::parse(kind).unwrap();
    Heard { run: "run_1", fact: Fact::read(kind, &content).unwrap() }
}

fn apply(task_events: &mut TaskEvents, heard: &Heard) -> Vec<StreamEvent> {
    task_events.apply(&heard.run.into(), 7, heard.fact.clone())
}

fn message(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "threadId": "thr_1", "role": "AI", "content": text, "timestamp": 7 })
}

fn started() -> Heard {
    seen("RUN_STARTED", json!({ "query": "q", "message": message("msg_0", "q"), "model": "m", "provider": "p" }))
}

fn finished(status: &str) -> Heard {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    let body = json!({ "status": status, "totalDurationMs": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage });
    seen("RUN_FINISHED", body)
}

fn token(stream: &str, offset: u64, text: &str) -> Token {
    let token = json!({
        "type": "TOKEN", "data": text, "tokenType": "SYNTHESIS_LLM_RESPONSE", "phase": "synthesis", "streamId": stream,
        "offset": offset, "threadId": "thr_1", "runId": "run_1", "traceId": "t",
    });
    serde_json::from_value(token).unwrap()
}

fn answered(text: &str) -> [Heard; 2] {
    [seen("FINAL_RESPONSE", json!({ "message": message("msg_1", text) })), finished("completed")]
}

/// Text, append, last chunk; and states.
fn pieces_of(events: &[StreamEvent]) -> Vec<(String, bool, bool)> {
    let piece_of = |event: &StreamEvent| match event {
        StreamEvent::ArtifactUpdate(update) => {
            let Content::Text(text) = &update.artifact.parts[0].content else { panic!("{update:?}") };
            (text.clone(), update.append, update.last_chunk)
        }
        StreamEvent::StatusUpdate(update) => (format!("{:?}", update.status.state), false, false),
        StreamEvent::Task(_) | StreamEvent::Message(_) => panic!("{event:?}"),
    };
    events.iter().map(piece_of).collect()
}

fn piece(text: &str, append: bool, last: bool) -> (String, bool, bool) {
    (text.to_owned(), append, last)
}

#[test]
fn tokens_are_pieces_of_the_answer_and_a_new_attempt_replaces_them() {
    let mut task_events = task_events();
    let tokens = [token("a", 0, "Hel"), token("a", 3, "lo"), token("b", 0, "Hi"), token("a", 5, "!")];
    let mut events: Vec<StreamEvent> = tokens.iter().filter_map(|token| task_events.token(token)).collect();
    events.extend(answered("Hi there").iter().flat_map(|seen| apply(&mut task_events, seen)));
    let expected = [
        piece("Hel", false, false),
        piece("lo", true, false),
        piece("Hi", false, false),
        piece("Hi there", false, true),
        piece("Completed", false, false),
    ];
    assert_eq!(pieces_of(&events), expected);
}

#[test]
fn what_tokens_said_is_replaced_by_the_answer_whatever_was_lost() {
    let mut lossy = task_events();
    assert!(lossy.token(&token("a", 0, "one ")).is_some());
    assert!(lossy.token(&token("a", 9, "three")).is_none(), "a piece is missing");
    let events: Vec<StreamEvent> = answered("one two three").iter().flat_map(|seen| apply(&mut lossy, seen)).collect();
    assert_eq!(pieces_of(&events)[0], piece("one two three", false, true));
    let mut wrong = task_events();
    wrong.token(&token("a", 0, "two"));
    let events: Vec<StreamEvent> = answered("one").iter().flat_map(|seen| apply(&mut wrong, seen)).collect();
    assert_eq!(pieces_of(&events)[0], piece("one", false, true));
}

/// The streamed text is the beginning of the answer.
#[test]
fn blanks_around_an_answer_are_none_of_it() {
    let mut task_events = task_events();
    let tokens = [token("a", 0, "\n"), token("a", 1, "\nHello "), token("a", 8, "you"), token("a", 11, " \n")];
    let mut events: Vec<StreamEvent> = tokens.iter().filter_map(|token| task_events.token(token)).collect();
    events.extend(answered("Hello you").iter().flat_map(|seen| apply(&mut task_events, seen)));
    let expected = [
        piece("Hello", false, false),
        piece(" you", true, false),
        piece("Hello you", false, true),
        piece("Completed", false, false),
    ];
    assert_eq!(pieces_of(&events), expected);
}

#[test]
fn only_what_is_news_is_told() {
    let mut task_events = task_events();
    let asked = |id: &str| {
        let form = json!({ "inputType": "text", "prompt": "?" });
        seen("AGENT_SUSPENDED", json!({ "suspensionId": id, "kind": "input", "message": "?", "feedbackSchema": form }))
    };
    let answered =
        |id: &str, how: &str| seen("AGENT_RESUMED", json!({ "suspensionId": id, "decision": how, "decidedBy": "ann" }));
    let mut states = |seen: Heard| {
        pieces_of(&apply(&mut task_events, &seen)).into_iter().map(|(state, ..)| state).collect::<Vec<_>>()
    };
    assert_eq!(states(started()), ["Working"]);
    assert_eq!(states(asked("s1")), ["InputRequired"]);
    assert!(states(asked("s2")).is_empty(), "the oldest question is the one that is told");
    assert!(states(seen("SUSPENSION_TIMEOUT", json!({ "suspensionId": "s1", "policy": "remind" }))).is_empty());
    assert_eq!(states(answered("s1", "answered")), ["InputRequired"], "the next one");
    assert_eq!(states(answered("s2", "cancelled")), ["Working"], "it was withdrawn, and the run may go on");
    assert_eq!(states(finished("cancelled")), ["Canceled"]);
}

#[test]
fn a_refusal_is_no_failure_and_another_run_is_nobodys_business() {
    for (code, state) in [("task_refused", "Rejected"), ("model_failed", "Failed")] {
        let mut task_events = task_events();
        let body = json!({ "phase": "planning", "code": code, "message": "No.", "fatal": true, "retryable": false });
        assert!(apply(&mut task_events, &seen("ERROR", body)).is_empty());
        assert_eq!(pieces_of(&apply(&mut task_events, &finished("failed")))[0].0, state);
        assert!(apply(&mut task_events, &Heard { run: "run_2", ..started() }).is_empty());
    }
}
