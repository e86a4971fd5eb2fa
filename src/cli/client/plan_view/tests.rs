use serde_json::{Value, json};

use super::PlanView;
use crate::cli::client::events::{ObservationFrame, TokenFrame};

fn frame(seq: i64, kind: &str, content: Value) -> ObservationFrame {
    ObservationFrame {
        seq,
        thread_id: "t".into(),
        parent_id: None,
        timestamp: seq * 1_000,
        kind: kind.to_owned(),
        content,
        metadata: None,
    }
}

/// From observation 5; open for two seconds.
fn asks(seq: i64) -> ObservationFrame {
    let asked = json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "expiresAt": seq * 1_000 + 2_000,
        "expiryPolicy": "remind", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
    });
    frame(seq, "AGENT_SUSPENDED", asked)
}

fn timeout(seq: i64, policy: &str) -> ObservationFrame {
    frame(seq, "SUSPENSION_TIMEOUT", json!({ "suspensionId": "sus_1", "policy": policy }))
}

#[test]
fn a_question_of_which_people_are_reminded_stays_open_for_as_long_again() {
    let mut view = PlanView::default();
    view.take(&asks(5));
    for (reminded_at, expires_at) in [(8, 10_000), (11, 13_000)] {
        view.take(&timeout(reminded_at, "remind"));
        let open: Vec<_> = view.questions.iter().map(|one| one.asked.expires_at).collect();
        assert_eq!(open, [Some(expires_at)]);
    }
    view.take(&timeout(14, "deny"));
    assert!(view.questions.is_empty());
}

#[test]
fn a_question_that_is_listed_and_told_of_is_asked_once() {
    let listed = json!({
        "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": "approval", "status": "pending",
        "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }, "createdAt": 5_000,
        "expiresAt": 11_000, "expiryPolicy": "remind", "expiresAfterMs": 2_000, "itemId": "send"
    });
    let listed = serde_json::from_value(listed).unwrap();
    let mut view = PlanView::default();
    view.add_open(&listed);
    assert_eq!(view.question_of(&"send".into()).map(|asked| asked.expires_at), Some(Some(11_000)));
    view.take(&timeout(11, "remind"));
    assert_eq!(view.questions[0].asked.expires_at, Some(13_000), "what was waited before does not count");
    view.take(&asks(5));
    view.add_open(&listed);
    assert_eq!(view.questions.len(), 1);
}

/// A reader of the log gets the tokens that were sent since it began to listen, also those of a stream whose end it has read.
#[test]
fn what_is_left_of_a_stream_that_has_ended_is_not_shown() {
    let token = |stream: &str| TokenFrame { data: "{".to_owned(), step_id: None, stream_id: stream.to_owned() };
    let mut view = PlanView::default();
    view.take(&frame(1, "LLM_STREAM_END", json!({ "streamId": "str_1", "text": "{}" })));
    let failed = json!({ "streamId": "str_2", "code": "retry", "message": "?", "retryable": true });
    view.take(&frame(2, "LLM_STREAM_ERROR", failed));
    for ended in ["str_1", "str_2"] {
        view.say(&token(ended));
        assert!(view.saying.is_none(), "{ended}");
    }
    view.say(&token("str_3"));
    assert!(view.saying.is_some_and(|saying| saying.text == "{"));
}
