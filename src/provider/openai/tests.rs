use serde_json::{Value, json};

use super::compatible::{DIALECTS, Reasoning};
use super::request;
use super::wire::Wire;
use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason};
use crate::domain::prompt::PromptMessage;
use crate::provider::wire::Framing;
use crate::provider::wire::tests::{asked, cut_everywhere, passed_on, planned, read, replay_everywhere, reply};

/// Cassettes say by their name what their dialect keeps.
fn wire(case: &str) -> Wire {
    match case {
        "deepseek_tools" => Wire::new(Reasoning::Content, "deepseek-chat"),
        "openrouter_details" => Wire::new(Reasoning::Details, "some/model"),
        _ => Wire::default(),
    }
}

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    read(Framing::Events, Wire::default(), pieces)
}

#[test]
fn the_request_is_what_each_dialect_understands() {
    for dialect in DIALECTS {
        let mut step = asked("some-model");
        step.params.retain(|name, _| !dialect.refuses.contains(&name.as_str()));
        let bodies = [request::body(dialect, &step), request::body(dialect, &planned("some-model"))];
        insta::assert_json_snapshot!(dialect.name, bodies);
    }
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    replay_everywhere("openai", Framing::Events, 15, wire);
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    cut_everywhere("openai", Framing::Events, wire);
}

#[test]
fn reasoning_comes_back_to_whom_it_came_from() {
    let sent = |dialect: &str, model: &str, replay: Value| {
        let dialect = DIALECTS.iter().find(|known| known.name == dialect).unwrap();
        let mut request = asked(model);
        for message in &mut request.messages {
            if let PromptMessage::Assistant { replay: kept, .. } = message {
                *kept = Some(replay.clone());
            }
        }
        request::body(dialect, &request)["messages"][2].clone()
    };
    let kept = |blocks: Value| json!({"wire": "openai", "model": "m", "blocks": blocks});
    assert_eq!(sent("deepseek", "m", kept(json!("hm")))["reasoning_content"], "hm");
    assert_eq!(sent("openrouter", "m", kept(json!([{"data": "x"}])))["reasoning_details"][0]["data"], "x");
    for message in [sent("deepseek", "other", kept(json!("hm"))), sent("groq", "m", kept(json!("hm")))] {
        assert_eq!((message.get("reasoning_content"), message.get("reasoning_details")), (None, None));
    }
}

#[test]
fn short_ids_are_the_same_for_call_and_result() {
    let mistral = DIALECTS.iter().find(|dialect| dialect.has_short_ids).unwrap();
    let messages = request::body(mistral, &asked("m"))["messages"].clone();
    for place in 0..2 {
        let (call, result) = (&messages[2]["tool_calls"][place]["id"], &messages[3 + place]["tool_call_id"]);
        assert_eq!((call, call.as_str().map(str::len)), (result, Some(9)));
    }
}

#[test]
fn what_is_not_the_protocol_is_broken_and_errors_are_classified() {
    let table = [
        ("data: {\"choices\": 7}\n\n", FailureKind::Broken),
        ("data: <html>\n\n", FailureKind::Broken),
        ("data: {\"error\": {\"message\": \"slow\", \"code\": 429}}\n\n", FailureKind::Retry),
        ("data: {\"object\": \"error\", \"message\": \"too long\", \"code\": 400}\n\n", FailureKind::Refused),
        ("data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\ndata: [DONE]\n\n", FailureKind::Incomplete),
        ("<html>not a stream</html>", FailureKind::Incomplete),
        ("", FailureKind::Incomplete),
    ];
    for (text, kind) in table {
        assert_eq!(heard([text.as_bytes()]).1.unwrap_err().kind, kind, "{text}");
    }
}

#[test]
fn the_number_of_calls_is_bounded_and_other_choices_are_ignored() {
    let call = |index: u64| {
        let call = json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{}"}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    };
    let many: String = (0..300).map(call).collect();
    assert_eq!(heard([many.as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);

    let other = json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]});
    let mine = json!({"choices": [{"index": 0, "delta": {"content": "mine"}, "finish_reason": "weird"}]});
    let (deltas, _) = heard([format!("data: {other}\n\ndata: {mine}\n\n").as_bytes()]);
    assert_eq!(deltas, [Delta::Text("mine".into()), Delta::Stop(StopReason::Other("weird".into()))]);
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "<think>t</think>hi", "tool_calls": [call]});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    let (deltas, ended) = read(Framing::Whole, Wire::default(), whole.as_bytes().chunks(7));
    assert_eq!(ended, Ok(()));
    let said = reply(deltas);
    assert_eq!(
        (&said["text"], &said["thinking"], &said["calls"]),
        (&json!("hi"), &json!("t"), &json!([["c", "f", "{}"]]))
    );
}

#[test]
fn a_message_after_or_beside_its_pieces_is_not_said_twice() {
    let piece = json!({"choices": [{"delta": {"content": "hi"}}]});
    let whole =
        |delta: Value| json!({"choices": [{"message": {"content": "hi"}, "delta": delta, "finish_reason": "stop"}]});
    for last in [whole(Value::Null), whole(json!({})), whole(json!({"content": ""}))] {
        let (deltas, ended) = heard([format!("data: {piece}\n\ndata: {last}\n\n").as_bytes()]);
        assert_eq!((reply(deltas)["text"].clone(), ended), (json!("hi"), Ok(())), "{last}");
    }
}

#[test]
fn a_megabyte_of_arguments_in_tiny_pieces_costs_linear_time() {
    let piece =
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "0123456789"}}]}}]});
    let piece = format!("data: {piece}\n\n");
    let passed = passed_on(Framing::Events, Wire::default(), "", &piece, 100_000);
    assert_eq!(passed, (100_000, 1_000_000), "each piece is passed on alone, nothing is repeated");
}
