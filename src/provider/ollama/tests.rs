use serde_json::json;

use super::request;
use super::wire::Wire;
use crate::domain::model::{Delta, FailureKind, ModelFailure};
use crate::domain::tool::ToolSpec;
use crate::provider::wire::Framing;
use crate::provider::wire::tests::{asked, cut_everywhere, passed_on, planned, read, replay_everywhere, reply};

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    read(Framing::Lines, Wire::default(), pieces)
}

#[test]
fn the_request_is_what_chat_takes() {
    insta::assert_json_snapshot!("a_step", request::body(&asked("llama3.2"), 16_384));
    insta::assert_json_snapshot!("a_plan", request::body(&planned("llama3.2"), 16_384));
    assert_eq!(request::body(&asked("gpt-oss:20b"), 1)["think"], "low");
}

/// A schema that Ollama cannot read would make every request with this tool fail.
#[test]
fn schemas_of_tools_are_adapted() {
    let mut request = asked("llama3.2");
    let input_schema = json!({ "properties": { "a": true, "b": { "type": "array" } } });
    request.tools = vec![ToolSpec { input_schema, ..ToolSpec::clone(&request.tools[0]) }.into()];
    let sent = request::body(&request, 16_384)["tools"][0]["function"]["parameters"].clone();
    let adapted = json!({ "type": "object", "properties": { "a": {}, "b": { "type": "array", "items": {} } } });
    assert_eq!(sent, adapted);
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    replay_everywhere("ollama", Framing::Lines, 5, |_| Wire::default());
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    cut_everywhere("ollama", Framing::Lines, |_| Wire::default());
}

#[test]
fn what_is_not_the_protocol_is_broken_and_errors_are_classified() {
    let table = [
        ("{\"error\": \"model runner has unexpectedly stopped\"}\n", FailureKind::Retry),
        ("{\"message\": 7}\n", FailureKind::Broken),
        ("<html>\n", FailureKind::Broken),
        ("{\"message\": {\"content\": \"a\"}, \"done\": false}\n", FailureKind::Incomplete),
        ("{\"message\": {\"conte", FailureKind::Incomplete),
        ("", FailureKind::Incomplete),
    ];
    for (text, kind) in table {
        assert_eq!(heard([text.as_bytes()]).1.unwrap_err().kind, kind, "{text}");
    }
}

#[test]
fn many_calls_are_passed_on_one_by_one_and_bounded() {
    let call = json!({"message": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, "done": false});
    let call = format!("{call}\n");
    assert_eq!(passed_on(Framing::Lines, Wire::default(), "", &call, 256), (256, 256 * 7));
    assert_eq!(heard([call.repeat(257).as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);
    let ended = format!("{call}{}\n", json!({"done": true, "done_reason": "stop"}));
    assert_eq!(reply(heard([ended.as_bytes()]).0)["stop"], "tool_use");
}
