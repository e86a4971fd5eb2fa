use serde_json::{Value, json};

use super::request;
use super::wire::Wire;
use crate::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest, StopReason};
use crate::domain::prompt::PromptMessage;
use crate::provider::wire::Framing;
use crate::provider::wire::tests::{asked, cut_everywhere, passed_on, planned, read, replay_everywhere};

const MODEL: &str = "gemini-3-pro";

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    read(Framing::Events, Wire::new(MODEL), pieces)
}

fn signed(model: &str, from: &str) -> ModelRequest {
    let mut request = asked(model);
    for message in &mut request.messages {
        if let PromptMessage::Assistant { replay, .. } = message {
            *replay = Some(json!({"wire": "gemini", "model": from, "blocks": {"0": "c2ln"}}));
        }
    }
    request
}

#[test]
fn the_request_is_what_generate_content_takes() {
    insta::assert_json_snapshot!("a_step", request::body(&signed(MODEL, MODEL)));
    insta::assert_json_snapshot!("a_plan", request::body(&planned("gemini-2.5-flash")));
}

#[test]
fn a_call_of_another_model_is_marked_as_such_where_signatures_are_asked_for() {
    let part = |model: &str, from: &str, place: usize| {
        let contents = request::body(&signed(model, from))["contents"].clone();
        contents[1]["parts"][1 + place].get("thoughtSignature").cloned()
    };
    assert_eq!(part(MODEL, MODEL, 0), Some(json!("c2ln")));
    assert_eq!(part(MODEL, "gemini-2.5-pro", 0), Some(json!("skip_thought_signature_validator")));
    assert_eq!(part(MODEL, "gemini-2.5-pro", 1), None);
    assert_eq!(part("gemini-2.5-pro", MODEL, 0), None);
}

#[test]
fn effort_becomes_a_budget_or_a_level() {
    let thinking = |model: &str, effort: &str| {
        let mut request = asked(model);
        request.params.shift_remove("maxTokens");
        request.params.insert("reasoningEffort".into(), effort.into());
        request::body(&request)["generationConfig"].get("thinkingConfig").cloned().unwrap_or(Value::Null)
    };
    assert_eq!(thinking("gemini-2.5-flash", "none")["thinkingBudget"], 0);
    assert_eq!(thinking("gemini-2.5-pro", "none")["thinkingBudget"], 128);
    assert_eq!(thinking("gemini-2.5-pro", "high")["thinkingBudget"], 24_576);
    assert_eq!(thinking("gemini-3-pro", "high")["thinkingLevel"], "high");
    assert_eq!(thinking("gemini-2.0-flash", "high"), Value::Null);
}

/// Else a reply could be nothing but thinking.
#[test]
fn thinking_leaves_a_part_of_the_length_that_is_asked_for() {
    let table = [
        ("gemini-2.5-flash", 100_000, "high", 24_576),
        ("gemini-2.5-flash", 24_576, "high", 20_480),
        ("gemini-2.5-flash", 2_048, "low", 1_024),
        ("gemini-2.5-flash", 2_000, "low", 1_000),
        ("gemini-2.5-flash", 1_022, "minimal", 0),
        ("gemini-2.5-pro", 1_022, "high", 128),
    ];
    for (model, length, effort, budget) in table {
        let mut request = asked(model);
        request.params.insert("maxTokens".into(), length.into());
        request.params.insert("reasoningEffort".into(), effort.into());
        let config = request::body(&request)["generationConfig"].clone();
        let sent = (&config["maxOutputTokens"], &config["thinkingConfig"]["thinkingBudget"]);
        assert_eq!(sent, (&json!(length), &json!(budget)), "{model} {effort}");
    }
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    replay_everywhere("gemini", Framing::Events, 6, |_| Wire::new(MODEL));
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    cut_everywhere("gemini", Framing::Events, |_| Wire::new(MODEL));
}

#[test]
fn what_is_not_the_protocol_is_broken_and_errors_are_classified() {
    let finish = |reason: &str| json!({"candidates": [{"content": {}, "finishReason": reason, "finishMessage": "m"}]});
    let table = [
        (json!({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}), FailureKind::Retry),
        (json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}), FailureKind::Retry),
        (json!({"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}), FailureKind::Refused),
        (json!({"promptFeedback": {"blockReason": "SAFETY"}}), FailureKind::Refused),
        (finish("MALFORMED_FUNCTION_CALL"), FailureKind::Broken),
        (finish("OTHER"), FailureKind::Incomplete),
        (json!({"candidates": 7}), FailureKind::Broken),
        (json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}), FailureKind::Incomplete),
    ];
    for (event, kind) in table {
        assert_eq!(heard([format!("data: {event}\n\n").as_bytes()]).1.unwrap_err().kind, kind, "{event}");
    }
}

/// What arrived before is no reply, but what it took is counted.
#[test]
fn a_reply_that_the_vendor_broke_off_is_not_whole() {
    let ended = |reason: &str| {
        let candidate = json!({"content": {"parts": [{"text": "half"}]}, "finishReason": reason});
        let usage = json!({"promptTokenCount": 12, "candidatesTokenCount": 3});
        heard([format!("data: {}\n\n", json!({"candidates": [candidate], "usageMetadata": usage})).as_bytes()])
    };
    for (reason, kind) in [("OTHER", FailureKind::Incomplete), ("MALFORMED_FUNCTION_CALL", FailureKind::Broken)] {
        let (deltas, ended) = ended(reason);
        let failure = ended.unwrap_err();
        assert_eq!((failure.kind, failure.is_models_fault), (kind, kind == FailureKind::Broken), "{reason}");
        let [Delta::Text(_), Delta::Usage(usage)] = &deltas[..] else { panic!("{reason}: {deltas:?}") };
        assert_eq!((usage.input_tokens, usage.output_tokens), (12, 3), "{reason}");
    }
    for reason in ["SAFETY", "MODEL_ARMOR"] {
        let (deltas, ended) = ended(reason);
        assert_eq!((deltas.last(), ended), (Some(&Delta::Stop(StopReason::Refusal)), Ok(())), "{reason}");
    }
}

#[test]
fn many_calls_are_passed_on_one_by_one_and_bounded() {
    let call = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}}]});
    let call = format!("data: {call}\n\n");
    assert_eq!(passed_on(Framing::Events, Wire::new(MODEL), "", &call, 256), (256, 256 * 7));
    assert_eq!(heard([call.repeat(257).as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);
}
