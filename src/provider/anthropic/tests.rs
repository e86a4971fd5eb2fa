use serde_json::{Value, json};

use super::form::FORM_TOOL;
use super::request;
use super::wire::Wire;
use crate::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest, StopReason};
use crate::domain::prompt::PromptMessage;
use crate::domain::tool::ToolSpec;
use crate::provider::wire::Framing;
use crate::provider::wire::tests::{asked, cut_everywhere, passed_on, planned, read, replay_everywhere, reply};

const MODEL: &str = "claude-sonnet-4-5";

fn wire(case: &str) -> Wire {
    Wire::new(MODEL, (case == "form").then_some(FORM_TOOL))
}

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    read(Framing::Events, wire(""), pieces)
}

fn step(model: &str, params: Value) -> ModelRequest {
    ModelRequest { params: params.as_object().cloned().unwrap(), ..asked(model) }
}

fn replayed(mut request: ModelRequest, from: &str) -> ModelRequest {
    for message in &mut request.messages {
        if let PromptMessage::Assistant { replay, .. } = message {
            let blocks = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
            *replay = Some(json!({"wire": "anthropic", "model": from, "blocks": blocks}));
        }
    }
    request
}

#[test]
fn the_request_is_what_messages_takes() {
    let plain = json!({"temperature": 0.5, "maxTokens": 100, "topP": 0.9, "stop": "END"});
    let thinking = json!({"maxTokens": 100, "reasoningEffort": "low"});
    let thought = |model: &str| ModelRequest { params: thinking.as_object().cloned().unwrap(), ..planned(model) };
    let table = [
        ("a_step", step(MODEL, plain)),
        ("a_step_that_thinks", replayed(step(MODEL, json!({"maxTokens": 10_000, "reasoningEffort": "low"})), MODEL)),
        ("a_step_that_thinks_adaptively", replayed(step("claude-opus-4-7", thinking.clone()), "claude-opus-4-7")),
        ("a_plan", planned(MODEL)),
        ("a_plan_that_thinks", thought("claude-opus-4-7")),
        ("a_plan_of_an_older_model", planned("claude-opus-4-1")),
    ];
    for (name, request) in table {
        insta::assert_json_snapshot!(name, request::body(&request, 64_000));
    }
}

#[test]
fn thinking_of_another_model_is_not_sent_and_ends_thinking_in_its_loop() {
    let thinking = json!({"reasoningEffort": "high"});
    for request in [replayed(step(MODEL, thinking.clone()), "claude-opus-4-1"), step(MODEL, thinking.clone())] {
        let body = request::body(&request, 64_000);
        assert_eq!((body.get("thinking"), body["messages"][1]["content"][0]["type"].as_str()), (None, Some("text")));
    }
    let mut begun = step(MODEL, thinking);
    begun.messages.truncate(2);
    assert_eq!(request::body(&begun, 64_000)["thinking"]["budget_tokens"], 20_480);
    assert_eq!(
        request::body(&begun, request::most_output(&begun, Default::default()))["thinking"]["budget_tokens"],
        4_096,
        "half of what it may write"
    );
}

#[test]
fn a_reply_may_be_as_long_as_its_prompt_leaves_room() {
    let known = crate::provider::known::KnownFacts::new(&Default::default());
    let messages = super::Messages { provider: "anthropic".into(), known: std::sync::Arc::new(known) };
    let most = |bytes: usize, params: Value| {
        let mut request = step(MODEL, params);
        request.messages.insert(1, PromptMessage::User { content: "x".repeat(bytes) });
        let body: Value = serde_json::from_slice(&super::Protocol::body(&messages, &request)).unwrap();
        (body["max_tokens"].as_u64().unwrap(), body["thinking"]["budget_tokens"].as_u64())
    };
    assert_eq!(most(3_000, json!({})), (64_000, None));
    let (room, _) = most(450_000, json!({}));
    assert!((49_000..50_000).contains(&room), "200,000 less what is asked: {room}");
    assert_eq!(most(450_000, json!({"maxTokens": 60_000})).0, 60_000, "what was asked for is asked for");
    assert_eq!(most(900_000, json!({})).0, 1_024, "some room is always left");
}

/// More would be spent than the budget or the cap has reserved.
#[test]
fn thinking_is_part_of_the_length_that_is_asked_for() {
    let table = [
        (24_576, "high", Some(20_480)),
        (32_000, "high", Some(20_480)),
        (100_000, "xhigh", Some(32_768)),
        (4_096, "high", Some(2_048)),
        (4_096, "minimal", Some(1_024)),
        (2_048, "high", Some(1_024)),
        (2_046, "high", None),
        (1, "high", None),
    ];
    for (asked, effort, budget) in table {
        let params = json!({"maxTokens": asked, "reasoningEffort": effort});
        let request = ModelRequest { params: params.as_object().cloned().unwrap(), ..planned("claude-opus-4-1") };
        let body = request::body(&request, 64_000);
        assert_eq!((&body["max_tokens"], body["thinking"]["budget_tokens"].as_u64()), (&json!(asked), budget));
        assert_eq!(
            request::has_form_tool(&request, 64_000),
            budget.is_none(),
            "a form is forced only without thinking"
        );
    }
}

#[test]
fn no_length_is_too_great_to_be_asked_for() {
    let params = json!({"maxTokens": u64::MAX, "reasoningEffort": "low"});
    let request = ModelRequest { params: params.as_object().cloned().unwrap(), ..planned(MODEL) };
    let body = request::body(&request, 64_000);
    assert_eq!((&body["max_tokens"], &body["thinking"]["budget_tokens"]), (&json!(u64::MAX), &json!(4_096)));
}

/// A forced call is rejected together with thinking, and would hide the tools of a step.
#[test]
fn a_model_that_takes_no_form_is_forced_only_where_that_is_taken() {
    let older = planned("claude-opus-4-1");
    let thinks = json!({"reasoningEffort": "low"}).as_object().cloned().unwrap();
    let table = [
        (older.clone(), true),
        (ModelRequest { params: thinks, ..older.clone() }, false),
        (ModelRequest { tools: asked(MODEL).tools, ..older }, false),
        (planned(MODEL), false),
    ];
    for (request, is_forced) in table {
        let body = request::body(&request, 64_000);
        assert_eq!(body.get("tool_choice").is_some(), is_forced, "{body:#}");
        assert_eq!(request::has_form_tool(&request, 64_000), is_forced, "the reply is read as it was asked for");
        assert!(!(is_forced && body.get("thinking").is_some()));
    }
}

/// A schema with more keywords than the native format supports is not sent as one, because the request would be
/// rejected.
#[test]
fn a_schema_that_is_no_form_is_asked_for_by_a_tool() {
    let member = |member: Value| json!({ "type": "object", "properties": { "a": member }, "required": ["a"], "additionalProperties": false });
    let table = [
        (member(json!({ "type": ["string", "null"], "enum": ["x", null] })), true),
        (member(json!({ "type": "array", "items": member(json!({ "type": "integer" })) })), true),
        (json!({ "type": "object" }), false),
        (member(json!({ "type": "object", "properties": {} })), false),
        (member(json!({ "type": "array", "items": { "type": "string", "minLength": 2 } })), false),
        (member(json!({ "type": "integer", "minimum": 1 })), false),
        (member(json!({ "$ref": "#" })), false),
        (member(json!(true)), false),
    ];
    for (schema, is_native) in table {
        let request = ModelRequest { response_schema: Some(schema.clone().into()), ..planned(MODEL) };
        let body = request::body(&request, 64_000);
        assert_eq!(body["output_config"].get("format").is_some(), is_native, "{schema}");
        assert_eq!(request::has_form_tool(&request, 64_000), !is_native, "{schema}");
    }
}

#[test]
fn schemas_of_tools_are_adapted_to_its_rules() {
    let mut request = asked(MODEL);
    let input_schema = json!({ "type": "object", "properties": { "a": {}, "b c": {} }, "required": ["b c"] });
    request.tools = vec![ToolSpec { input_schema, ..ToolSpec::clone(&request.tools[0]) }.into()];
    let sent = request::body(&request, 64_000)["tools"][0]["input_schema"].clone();
    assert_eq!(sent, json!({ "type": "object", "properties": { "a": {} }, "required": [] }));
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    replay_everywhere("anthropic", Framing::Events, 9, wire);
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    cut_everywhere("anthropic", Framing::Events, wire);
}

#[test]
fn what_is_not_the_protocol_is_broken_and_errors_are_classified() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "m"}});
    let stray =
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": "{"}});
    let table = [
        (error("overloaded_error"), FailureKind::Retry),
        (error("api_error"), FailureKind::Retry),
        (error("rate_limit_error"), FailureKind::Retry),
        (error("invalid_request_error"), FailureKind::Refused),
        (json!({"error": {"message": "m"}}), FailureKind::Retry),
        (json!({"type": "content_block_delta"}), FailureKind::Broken),
        (json!({"type": "message_stop"}), FailureKind::Incomplete),
        (json!([1]), FailureKind::Broken),
        (stray, FailureKind::Broken),
    ];
    for (event, kind) in table {
        assert_eq!(heard([format!("data: {event}\n\n").as_bytes()]).1.unwrap_err().kind, kind, "{event}");
    }
}

#[test]
fn an_index_may_be_missing_or_any_number() {
    let pieces = |index: Value| {
        let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
        let piece = json!({"type": "input_json_delta", "partial_json": "{}"});
        let mut events = [
            json!({"type": "content_block_start", "content_block": call}),
            json!({"type": "content_block_delta", "delta": piece}),
        ];
        events.iter_mut().filter(|_| !index.is_null()).for_each(|event| event["index"] = index.clone());
        events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()
    };
    for index in [Value::Null, json!(0), json!(u64::MAX)] {
        let said = reply(heard([pieces(index.clone()).as_bytes()]).0);
        assert_eq!(said["calls"], json!([["c", "f", "{}"]]), "{index}");
    }
}

#[test]
fn the_number_of_blocks_is_bounded() {
    let begin =
        json!({"type": "content_block_start", "index": u64::MAX, "content_block": {"type": "text", "text": "a"}});
    let many = format!("data: {begin}\n\n").repeat(2000);
    assert_eq!(heard([many.as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let content = json!([{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]);
    let usage = json!({"input_tokens": 3, "output_tokens": 4});
    let whole = json!({"type": "message", "content": content, "usage": usage, "stop_reason": "tool_use"}).to_string();
    let (deltas, ended) = read(Framing::Whole, wire(""), whole.as_bytes().chunks(7));
    assert_eq!((ended, deltas.last()), (Ok(()), Some(&Delta::Stop(StopReason::ToolUse))));
    let said = reply(deltas);
    assert_eq!((&said["text"], &said["calls"]), (&json!("hi"), &json!([["c", "f", ""]])));
    assert_eq!(said["usage"]["inputTokens"], 3);
}

#[test]
fn a_megabyte_of_arguments_in_tiny_pieces_costs_linear_time() {
    let begin = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}}});
    let piece = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "0123456789"}});
    let [begin, piece] = [begin, piece].map(|event| format!("data: {event}\n\n"));
    assert_eq!(passed_on(Framing::Events, wire(""), &begin, &piece, 100_000), (100_000, 1_000_000));
}
