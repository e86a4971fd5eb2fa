//! Every type of observation as events, compared with `tests/golden/openai/`; and a later read of the log gives the
//! same events as a live connection.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::domain::frame::Token;
use crate::domain::observation::Observation;
use crate::http::doors::openai::responses::object::ResponseId;
use crate::http::doors::recorded::{decode, of_every_type};

const RESPONSE: &str = include_str!("../../../../../../tests/golden/openai/response.txt");

fn events_from(start: i64) -> ResponseEvents {
    events_of(start, (start > 1).then_some(1))
}

fn events_of(start: i64, answers: Option<u32>) -> ResponseEvents {
    let id = ResponseId { run: "run_1".into(), start, answers };
    let run = json!({
        "runId": "run_1", "threadId": "t", "status": "running", "query": "Count", "traceId": "", "model": "demo",
        "provider": "demo", "createdAt": 1_700_000_000_000_i64, "llmCalls": 0, "toolCalls": 0,
        "usage": { "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 },
    });
    let stored = json!({ "openai": { "model": "pes", "metadata": { "k": "v" } } });
    let head = ResponseHead::of(id, &serde_json::from_value(run).unwrap(), stored.as_object());
    ResponseEvents::new(head, None)
}

/// All events of a response that begins after `start`, from the log alone.
fn replayed(log: &[Observation], start: i64) -> Vec<ResponseEvent> {
    let mut events = events_from(start);
    log.iter().for_each(|observation| events.observation(&decode(observation)));
    if !events.is_finished() {
        events.suspended();
    }
    events.take()
}

#[test]
fn every_observation_comes_to_these_events() {
    let mut written = String::new();
    for start in [1, 18] {
        let mut events = events_from(start);
        for observation in of_every_type() {
            events.observation(&decode(&observation));
            written += &format!("{}\n", observation.kind.as_str());
            written.extend(events.take().into_iter().map(|ResponseEvent { data, .. }| format!("    {data}\n")));
        }
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(format!("{folder}/openai-response.txt"), &written).unwrap();
    assert!(written == RESPONSE, "tests/golden/openai/response.txt is not {folder}/openai-response.txt");
}

fn observed(seq: usize, kind: &str, content: Value) -> Observation {
    serde_json::from_value(json!({
        "seq": seq, "id": format!("obs_{seq}"), "threadId": "t", "runId": "run_1", "traceId": "",
        "timestamp": 1_700_000_000_000_i64 + i64::try_from(seq).unwrap(), "type": kind, "title": "", "content": content,
    }))
    .unwrap()
}

/// The log of a run with this answer, after this many failed attempts.
fn answering(text: &str, failures: usize) -> Vec<Observation> {
    let mut log = Vec::new();
    let mut add = |kind: &str, content: Value| log.push(observed(log.len() + 1, kind, content));
    let start = |at: usize| json!({ "streamId": format!("s{at}"), "phase": "synthesis", "provider": "d", "model": "d", "attempt": at });
    for at in 0..failures {
        add("LLM_STREAM_START", start(at));
        add(
            "LLM_STREAM_ERROR",
            json!({ "streamId": format!("s{at}"), "code": "broken", "message": "", "retryable": true }),
        );
    }
    add("LLM_STREAM_START", start(failures));
    add("LLM_STREAM_END", json!({ "streamId": format!("s{failures}"), "text": text }));
    let message = json!({ "messageId": "m", "threadId": "t", "role": "AI", "content": text.trim(), "timestamp": 1 });
    add("FINAL_RESPONSE", json!({ "message": message }));
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    add(
        "RUN_FINISHED",
        json!({ "status": "completed", "totalDurationMs": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage }),
    );
    log
}

fn token(stream: &str, offset: usize, data: &str) -> Token {
    serde_json::from_value(json!({
        "type": "TOKEN", "data": data, "tokenType": "SYNTHESIS_LLM_RESPONSE", "phase": "synthesis", "streamId": stream,
        "offset": offset, "threadId": "t", "runId": "run_1", "traceId": "",
    }))
    .unwrap()
}

/// The same events from a live connection: each stream with its tokens, cut at `ends`, without the one at `lost`.
fn heard(log: &[Observation], text: &str, ends: &[usize], lost: Option<usize>) -> Vec<ResponseEvent> {
    let mut events = events_from(0);
    for observation in log {
        events.observation(&decode(observation));
        if observation.kind == ObservationType::LlmStreamStart {
            let stream = observation.content["streamId"].as_str().unwrap();
            let mut from = 0;
            for (at, end) in ends.iter().enumerate() {
                if lost != Some(at) {
                    events.token(&token(stream, from, &text[from..*end]));
                }
                from = *end;
            }
        }
    }
    events.take()
}

fn data(event: &ResponseEvent) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

fn text_of(events: &[ResponseEvent]) -> String {
    let deltas = events.iter().filter(|event| event.kind == "response.output_text.delta");
    deltas.map(|event| data(event)["delta"].as_str().unwrap().to_owned()).collect()
}

proptest! {
    /// However the tokens come, and whichever are lost, the events are those of the log. So the events before any cut,
    /// and those read after it, are the whole.
    #[test]
    fn live_is_what_is_told_again(
        text in "[ \n]{0,2}[a-cé]{1,70}([ \n]{1,3}[a-c]{1,9}){0,6}[ \n]{0,2}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        lost in prop::option::of(0usize..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let log = answering(&text, 0);
        let mut ends: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(at.index(text.len() + 1))).collect();
        ends.push(text.len());
        ends.sort_unstable();
        let (live, again) = (heard(&log, &text, &ends, lost), replayed(&log, 0));
        prop_assert_eq!(&live, &again);
        prop_assert_eq!(text_of(&live), text.trim());
        prop_assert!(live.iter().enumerate().all(|(at, event)| event.number == at as u64));
        let seen = &live[..=cut.index(live.len())];
        let behind = again.into_iter().filter(|event| event.number > seen.last().unwrap().number);
        prop_assert_eq!(seen.iter().cloned().chain(behind).collect::<Vec<_>>(), live.clone());
    }

    /// Events after a failed attempt are never mistaken for events of that attempt.
    #[test]
    fn after_an_attempt_that_broke_off_live_goes_on_as_the_log(
        failures in 1usize..3,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let text = "one two three";
        let log = answering(text, failures);
        let mut ends: Vec<usize> = cuts.iter().map(|at| at.index(text.len() + 1)).collect();
        ends.sort_unstable();
        let last = failures as u64 * 1_000_000;
        let behind = |events: Vec<ResponseEvent>| events.into_iter().filter(|event| event.number >= last).collect::<Vec<_>>();
        let (live, again) = (heard(&log, text, &ends, None), replayed(&log, 0));
        prop_assert_eq!(text_of(&behind(live.clone())), text);
        prop_assert_eq!(behind(live), behind(again));
    }
}

/// A reader that subscribed during the attempt has read its end from the log.
#[test]
fn tokens_of_an_attempt_that_is_over_say_nothing() {
    let log = answering("one two", 1);
    let mut events = events_from(0);
    log[..3].iter().for_each(|observation| events.observation(&decode(observation)));
    events.take();
    events.token(&token("s0", 0, "half an answer"));
    assert_eq!(events.take(), []);
    events.token(&token("s1", 0, "one two"));
    assert_eq!(text_of(&events.take()), "one ");
}

/// In the log, the thoughts of a model follow its reply.
#[test]
fn an_answer_that_a_model_thought_about_is_one_message() {
    let text = "one two three";
    let mut log = answering(text, 0);
    let thoughts = json!({ "streamId": "s0", "phase": "synthesis", "text": "I count." });
    log.insert(2, observed(3, "THOUGHTS", thoughts));
    let again = replayed(&log, 0);
    assert_eq!(heard(&log, text, &[5, text.len()], None), again);
    let response = &data(again.last().unwrap())["response"];
    let [message] = &response["output"].as_array().unwrap()[..] else { panic!("{response:#}") };
    assert_eq!((&message["status"], &message["content"][0]["text"]), (&json!("completed"), &json!(text)));
}

#[test]
fn a_run_that_goes_on_after_a_question_is_another_response() {
    let log = of_every_type();
    let asked = log.iter().position(|observation| observation.kind == ObservationType::AgentSuspended).unwrap();
    let first = replayed(&log[..=asked], 1);
    assert_eq!(first.last().unwrap().kind, "response.completed");
    assert_eq!(replayed(&log, 1), first, "whatever came later");
    let response = &data(first.last().unwrap())["response"];
    let question = response["output"].as_array().unwrap().last().unwrap();
    assert!(question["content"][0]["text"].as_str().unwrap().starts_with("Send the mail?"), "{question:#}");
    let second = replayed(&log, log[asked].seq + 1);
    assert_eq!(text_of(&second), "Two and two are four.");
    assert_eq!(data(&second[0])["response"]["id"], format!("resp_run_1_{}c1", log[asked].seq + 1));
}

/// A log in which two tools ask `One?` and `Two?` at `seq` 1 and 2 while they run, and `One?` is answered at 3.
fn of_running_tools() -> Vec<Observation> {
    let asks = |id: &str, message: &str| {
        json!({
            "suspensionId": id, "kind": "input", "message": message, "callId": format!("call of {id}"),
            "whileRunning": true, "feedbackSchema": { "inputType": "text", "prompt": message },
        })
    };
    vec![
        observed(1, "AGENT_SUSPENDED", asks("sus_1", "One?")),
        observed(2, "AGENT_SUSPENDED", asks("sus_2", "Two?")),
        observed(3, "AGENT_RESUMED", json!({ "suspensionId": "sus_1", "decision": "answered", "decidedBy": "ann" })),
        observed(
            4,
            "ERROR",
            json!({ "phase": "execution", "code": "c", "message": "m", "fatal": false, "retryable": false }),
        ),
    ]
}

/// The questions at the end of a response; checks that it has ended.
fn asked(events: &[ResponseEvent]) -> Vec<String> {
    let last = events.last().expect("events");
    assert_eq!(last.kind, "response.completed");
    let output = data(last)["response"]["output"].clone();
    let first_line = |item: &Value| item["content"][0]["text"].as_str().unwrap().lines().next().unwrap().to_owned();
    output.as_array().unwrap().iter().map(first_line).collect()
}

/// The run is not suspended by such a question, so that no frame says that it waits.
#[tokio::test]
async fn a_response_that_answers_nothing_ends_with_the_questions_of_running_tools_from_before_it() {
    let log = of_running_tools();
    for start in [1, 2] {
        let mut live = events_of(start, Some(0));
        let before = log.iter().filter(|observation| observation.seq <= start);
        before.for_each(|observation| live.observation(&decode(observation)));
        assert!(!live.is_finished(), "answers may be unread");
        let mut events = live.take();
        events.extend(live.project(RunFrame::CaughtUp).await);
        let mut again = events_of(start, Some(0));
        log.iter().for_each(|observation| again.observation(&decode(observation)));
        assert_eq!(again.take(), events, "whatever came later");
        let expected: &[&str] = if start == 1 { &["One?"] } else { &["One?", "Two?"] };
        assert_eq!(asked(&events), expected);
    }
}

#[test]
fn a_response_to_one_of_two_running_tools_ends_with_the_question_of_the_other() {
    let log = of_running_tools();
    // The other question is from before the response, or comes between its beginning and its answer.
    for start in [2, 1] {
        let mut events = events_of(start, Some(1));
        log[..2].iter().for_each(|observation| events.observation(&decode(observation)));
        assert!(!events.is_finished(), "its answer is unread");
        events.observation(&decode(&log[2]));
        assert_eq!(asked(&events.take()), ["Two?"]);
    }
}

#[test]
fn the_name_of_a_response_is_read_back() {
    for (run, start, answers) in [("run_01a-b", 7, None), ("run_1", 0, Some(2))] {
        let id = ResponseId { run: run.into(), start, answers };
        assert_eq!(ResponseId::parse(&id.to_string()), Some(id.clone()));
        let item = format!("msg_{}_3", id.to_string().trim_start_matches("resp_"));
        assert_eq!(ResponseId::of_item(&item), Some(id));
    }
    for wrong in [
        "",
        "resp_",
        "resp_run_1_",
        "resp_run_1_-1",
        "resp_run_1_x",
        "resp_run_1_+1",
        "resp_run_1_1c",
        "resp_run_1_c1",
        "run_1_1",
        "resp_1",
    ] {
        assert_eq!(ResponseId::parse(wrong), None, "{wrong}");
    }
}
