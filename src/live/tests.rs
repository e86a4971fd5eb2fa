mod random;
mod told;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::domain::frame::{Frame, Token, TokenKind, TokenType};
use crate::domain::ids::ThreadPk;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::RunResource;

const PK: ThreadPk = ThreadPk(1);

fn head(stream: &str) -> StreamHead {
    StreamHead {
        stream_id: stream.into(),
        phase: Phase::Execution,
        step_id: Some("a".into()),
        step_description: Some("say \"hi\"".into()),
        thread_id: "t".into(),
        run_id: "run".into(),
        trace_id: "trace".into(),
    }
}

fn observation(seq: i64, size: usize) -> Observation {
    Observation {
        seq,
        id: "obs".into(),
        thread_id: "t".into(),
        run_id: "run".into(),
        parent_id: None,
        trace_id: "trace".into(),
        timestamp: 1,
        kind: ObservationType::Thoughts,
        title: "Thoughts".into(),
        content: json!({"text": "x".repeat(size)}),
        metadata: None,
    }
}

/// A run at the time of an observation, which its query names first.
fn run(after_seq: i64, size: usize) -> RunResource {
    let run = json!({
        "runId": "run", "threadId": "t", "status": "completed", "query": format!("{after_seq} {}", "x".repeat(size)),
        "traceId": "trace", "model": "m", "provider": "p", "createdAt": 1, "llmCalls": 0, "toolCalls": 0, "usage": {},
    });
    serde_json::from_value(run).expect("a run")
}

fn json(frame: &Encoded) -> Value {
    serde_json::from_slice(&frame.json()).unwrap()
}

fn frame(subscription: &mut Subscription) -> Option<Value> {
    match subscription.try_next()? {
        Live::Frame(frame) => Some(json(&frame)),
        Live::Gap { .. } => Some(json!("gap")),
        Live::Draining(ms) => Some(json!({ "draining": ms })),
    }
}

#[test]
fn frames_read_as_the_domain_writes_them() {
    let hub = Hub::new(1 << 18);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    let stream = hub.open_stream(PK, head("s"));
    stream.publish(Channel::Thinking, "hm");
    stream.publish(Channel::Response, "é\n");
    stream.publish(Channel::Response, "\"");
    hub.publish_observation(PK, observation(3, 1));
    let token = |thinking, data: &str, offset| {
        Frame::Token(Token {
            kind: TokenKind::Token,
            data: data.into(),
            token_type: TokenType::of(Phase::Execution, thinking),
            phase: Phase::Execution,
            step_id: Some("a".into()),
            step_description: Some("say \"hi\"".into()),
            stream_id: "s".into(),
            offset,
            thread_id: "t".into(),
            run_id: "run".into(),
            trace_id: "trace".into(),
        })
    };
    let expected = [
        token(true, "hm", 0),
        token(false, "é\n", 0),
        token(false, "\"", 3),
        Frame::Observation(Box::new(observation(3, 1))),
    ];
    for wanted in expected {
        let Some(Live::Frame(got)) = reader.try_next() else { panic!("a frame was due") };
        assert_eq!(got.json(), serde_json::to_string(&wanted).unwrap());
    }
    assert_eq!(json(&Encoded::caught_up(4)), serde_json::to_value(Frame::CaughtUp { seq: 4 }).unwrap());
    assert_eq!(json(&Encoded::gap(4)), serde_json::to_value(Frame::Gap { from_seq: 4 }).unwrap());
    assert_eq!(json(&Encoded::draining(4)), serde_json::to_value(Frame::Draining { retry_in_ms: 4 }).unwrap());
}

#[test]
fn an_event_carries_its_seq_and_the_same_data() {
    let frame = Encoded::observation(observation(7, 3));
    let text = String::from_utf8(frame.sse().to_vec()).unwrap();
    let data = serde_json::to_string(&observation(7, 3)).unwrap();
    assert_eq!(text, format!("event: observation\nid: 7\ndata: {data}\n\n"));
    assert_eq!(Encoded::caught_up(7).sse(), "event: caught_up\ndata: {\"seq\":7}\n\n");
}

#[test]
fn all_sockets_share_one_encoding() {
    let hub = Hub::new(1 << 18);
    let mut readers: Vec<Subscription> = (0..3).map(|_| hub.subscribe(PK, SubscriptionFilter::default())).collect();
    readers.iter_mut().for_each(Subscription::join_tokens);
    hub.publish_observation(PK, observation(1, 10));
    let stream = hub.open_stream(PK, head("s"));
    stream.publish(Channel::Response, "a");
    stream.publish(Channel::Response, "b");
    for _observation_then_token in 0..2 {
        let mut frames = readers.iter_mut().map(|reader| match reader.try_next() {
            Some(Live::Frame(frame)) => frame,
            other => panic!("{other:?}"),
        });
        let first = frames.next().unwrap();
        assert!(frames.all(|frame| Arc::ptr_eq(&frame, &first)));
    }
}

#[test]
fn tokens_that_wait_in_a_row_are_one_frame() {
    let hub = Hub::new(1 << 18);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    reader.join_tokens();
    let mut other = hub.subscribe(PK, SubscriptionFilter::default());
    let (stream, second) = (hub.open_stream(PK, head("s")), hub.open_stream(PK, head("other")));
    stream.publish(Channel::Response, "a");
    stream.publish(Channel::Response, "b");
    stream.publish(Channel::Thinking, "c");
    stream.publish(Channel::Response, "d");
    second.publish(Channel::Response, "e");
    hub.publish_observation(PK, observation(1, 1));
    second.publish(Channel::Response, "f");
    second.publish(Channel::Response, "g");
    let mut told = Vec::new();
    while let Some(frame) = frame(&mut reader) {
        let data = &frame["data"];
        told.push(format!("{}{}", data["data"].as_str().unwrap_or("seq"), data["offset"].as_i64().unwrap_or(1)));
    }
    assert_eq!(told, ["ab0", "c0", "d2", "e0", "seq1", "fg1"]);
    let as_said = std::iter::from_fn(|| frame(&mut other)).count();
    assert_eq!(as_said, 8, "who did not ask for it gets what was said, piece by piece");
}

#[test]
fn a_late_joiner_gets_what_was_said_in_one_frame_and_then_the_rest() {
    let hub = Hub::new(64);
    let stream = hub.open_stream(PK, head("s"));
    for _ in 0..100 {
        stream.publish(Channel::Response, "word ");
    }
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    stream.publish(Channel::Response, "end");
    let said = frame(&mut reader).unwrap();
    assert_eq!((said["data"]["offset"].clone(), said["data"]["data"].as_str().unwrap().len()), (json!(0), 500));
    let rest = frame(&mut reader).unwrap();
    assert_eq!((&rest["data"]["offset"], &rest["data"]["data"]), (&json!(500), &json!("end")));
    assert_eq!(frame(&mut reader), None);
}

#[test]
fn filters_hold_back_types_and_tokens() {
    let hub = Hub::new(1 << 18);
    let stream = hub.open_stream(PK, head("s"));
    stream.publish(Channel::Response, "early");
    let mut reader = hub.subscribe(PK, SubscriptionFilter { tokens: false, types: vec![ObservationType::Plan] });
    stream.publish(Channel::Response, "late");
    hub.publish_observation(PK, observation(1, 1));
    hub.publish_observation(PK, Observation { kind: ObservationType::Plan, ..observation(2, 1) });
    assert_eq!(frame(&mut reader).unwrap()["data"]["seq"], 2);
    assert_eq!(frame(&mut reader), None);
}

#[test]
fn nothing_is_kept_for_idle_threads() {
    let hub = Hub::new(1 << 18);
    for pk in 0..100 {
        hub.publish_observation(ThreadPk(pk), observation(1, 1));
        let reader = hub.subscribe(ThreadPk(pk), SubscriptionFilter::default());
        let stream = hub.open_stream(ThreadPk(pk), head("s"));
        drop(reader);
        assert_eq!(hub.topic_count(), 1);
        drop(stream);
        assert_eq!(hub.topic_count(), 0);
    }
}

#[test]
fn draining_is_told_once_and_to_late_comers_too() {
    let hub = Hub::new(1 << 18);
    let mut early = hub.subscribe(PK, SubscriptionFilter::default());
    hub.publish_draining(500);
    hub.publish_draining(500);
    let mut late = hub.subscribe(PK, SubscriptionFilter::default());
    for reader in [&mut early, &mut late] {
        assert_eq!(frame(reader), Some(json!({"draining": 500})));
        assert_eq!(frame(reader), None);
    }
}

#[test]
fn who_began_to_listen_too_late_for_a_commit_is_told_to_read_it() {
    let hub = Hub::new(1000);
    hub.publish_gap(PK);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    assert_eq!(frame(&mut reader), None, "what was committed before is in the backlog");
    hub.publish_gap(PK);
    hub.publish_gap(PK);
    hub.publish_observation(PK, observation(2, 10));
    assert_eq!(frame(&mut reader), Some(json!("gap")), "once, and what comes before it is taken is read too");
    assert_eq!(frame(&mut reader), None);
}

#[test]
fn who_has_read_the_log_is_not_told_to_read_it_again() {
    let hub = Hub::new(1000);
    let mut early = hub.subscribe(PK, SubscriptionFilter::default());
    hub.publish_observation(PK, observation(3, 1));
    frame(&mut early).expect("it is told");
    let (mut reader, mut unread) =
        (hub.subscribe(PK, SubscriptionFilter::default()), hub.subscribe(PK, SubscriptionFilter::default()));
    reader.mark_read(4);
    hub.publish_gap_up_to(PK, 3);
    for reader in [&mut early, &mut reader, &mut unread] {
        assert_eq!(frame(reader), None, "what was told here is read by all who came later");
    }
    hub.publish_gap_up_to(PK, 4);
    assert_eq!(frame(&mut reader), None);
    for reader in [&mut early, &mut unread] {
        assert_eq!(frame(reader), Some(json!("gap")), "another process wrote it");
    }
    hub.publish_gap_up_to(PK, 5);
    assert_eq!(frame(&mut reader), Some(json!("gap")));
}

#[test]
fn a_log_that_went_back_is_read_again_and_so_is_what_others_add_to_it() {
    let hub = Hub::new(1 << 18);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    hub.publish_observation(PK, observation(9, 1));
    frame(&mut reader).expect("it is told");
    hub.publish_shortened(PK, 2);
    assert_eq!(frame(&mut reader), Some(json!("gap")));
    reader.mark_read(2);
    hub.publish_gap_up_to(PK, 3);
    assert_eq!(frame(&mut reader), Some(json!("gap")), "another process wrote it");
}

#[tokio::test]
async fn a_waiting_reader_is_woken() {
    let hub = Hub::new(1 << 18);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    let waiting = tokio::spawn(async move { reader.next().await });
    tokio::task::yield_now().await;
    hub.publish_observation(PK, observation(1, 1));
    assert!(matches!(waiting.await.unwrap(), Live::Frame(_)));
}

#[test]
fn a_large_observation_reaches_a_reader_that_keeps_up() {
    let hub = Hub::new(1000);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    hub.publish_observation(PK, observation(1, 100_000));
    assert_eq!(frame(&mut reader).unwrap()["data"]["seq"], 1);
}

#[test]
fn a_full_queue_merges_tokens_then_drops_them_then_tells_of_a_gap() {
    let hub = Hub::new(2000);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    let stream = hub.open_stream(PK, head("s"));
    for _ in 0..30 {
        stream.publish(Channel::Response, "0123456789");
    }
    let merged = frame(&mut reader).unwrap();
    assert!(merged["data"]["data"].as_str().unwrap().len() > 200, "waiting tokens were not merged");
    while frame(&mut reader).is_some() {}

    stream.publish(Channel::Response, &"x".repeat(1500));
    hub.publish_observation(PK, observation(1, 1200));
    assert_eq!(frame(&mut reader).unwrap()["data"]["seq"], 1, "the observation goes before the tokens");
    stream.publish(Channel::Response, "after");
    assert_eq!(frame(&mut reader).unwrap()["data"]["offset"], 1800);

    (2..5).for_each(|seq| hub.publish_observation(PK, observation(seq, 1200)));
    assert_eq!(frame(&mut reader), Some(json!("gap")));
    assert_eq!(frame(&mut reader), None);
    hub.publish_observation(PK, observation(5, 10));
    assert_eq!(frame(&mut reader).unwrap()["data"]["seq"], 5);
}

/// Whoever stops at the end of a run has been sent to the log before.
#[test]
fn a_run_that_does_not_fit_comes_after_the_gap() {
    let hub = Hub::new(2000);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    hub.publish_observation(PK, observation(1, 500));
    hub.publish_run(PK, &run(1, 1500), 1);
    assert_eq!(frame(&mut reader), Some(json!("gap")));
    assert_eq!(frame(&mut reader).unwrap()["event"], "run");
    assert_eq!(frame(&mut reader), None);

    hub.publish_observation(PK, observation(2, 500));
    hub.publish_run(PK, &run(2, 10), 2);
    hub.publish_gap(PK);
    hub.publish_run(PK, &run(2, 1500), 2);
    assert_eq!(frame(&mut reader), Some(json!("gap")), "an earlier one is put where the first of what was dropped was");
    assert_eq!(frame(&mut reader).unwrap()["event"], "run");
    assert_eq!(frame(&mut reader), None, "only the newest state of a run is left");
}

#[test]
fn a_gap_says_whether_the_reader_was_too_slow() {
    let hub = Hub::new(1000);
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    let mut is_overflow = || match reader.try_next() {
        Some(Live::Gap { overflowed }) => Some(overflowed),
        Some(Live::Frame(_) | Live::Draining(_)) | None => None,
    };
    hub.publish_gap(PK);
    assert_eq!(is_overflow(), Some(false), "nobody could be told");
    hub.publish_observation(PK, observation(1, 600));
    hub.publish_observation(PK, observation(2, 600));
    assert_eq!(is_overflow(), Some(true));
    hub.publish_gap(PK);
    assert_eq!(is_overflow(), Some(false), "the last one is forgotten");
}
