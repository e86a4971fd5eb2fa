use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::body::Body;
use super::{compatible, request};
use crate::domain::model::{CallContext, Delta, FailureKind, ModelFailure, ModelRequest, Phase, StopReason, Usage};
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::{ToolClass, ToolSpec};

fn cassettes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes/openai");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "sse")).collect()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    let (mut body, mut deltas) = (Body::of_events(1 << 20), Vec::new());
    for piece in pieces {
        match body.take(piece, &mut deltas) {
            Ok(false) => {}
            Ok(true) => return (deltas, Ok(())),
            Err(failure) => return (deltas, Err(failure)),
        }
    }
    let ended = body.end(&mut deltas);
    (deltas, ended)
}

/// The reply that deltas come to, in the shape of `tests/cassettes/openai/*.json`.
fn reply(deltas: Vec<Delta>) -> Value {
    let (mut text, mut thinking, mut usage, mut stop) = (String::new(), String::new(), Usage::default(), None);
    let mut calls: Vec<[String; 3]> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::Thinking(piece) => thinking.push_str(&piece),
            Delta::ToolCall { index, id, name, arguments } => {
                calls.resize_with(calls.len().max(index as usize + 1), Default::default);
                let call = &mut calls[index as usize];
                call[0].extend(id);
                call[1].extend(name);
                call[2].push_str(&arguments);
            }
            Delta::Usage(counted) => usage = counted,
            Delta::Stop(reason) => stop = Some(reason),
            Delta::Replay(_) => {}
        }
    }
    json!({ "text": text, "thinking": thinking, "calls": calls, "usage": usage, "stop": stop })
}

fn asked() -> ModelRequest {
    let call = PromptCall {
        id: "call_1".into(),
        name: "calculator".into(),
        arguments: json!({"expression": "595 * 12 per cent"}),
    };
    let schema =
        json!({"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]});
    let params = json!({"temperature": 0.5, "maxTokens": 100, "topP": 0.9, "stop": ["END"], "seed": 7, "reasoningEffort": "low"});
    let messages = vec![
        PromptMessage::System { content: "Phase: execution tip\nYou work on one item.".into() },
        PromptMessage::User { content: "Compute a tip of 12% of the bill".into() },
        PromptMessage::Assistant { content: String::new(), tool_calls: vec![call], replay: None },
        PromptMessage::Tool {
            tool_call_id: "call_1".into(),
            name: "calculator".into(),
            content: "error: at character 10".into(),
        },
    ];
    let tool = ToolSpec {
        name: "calculator".into(),
        description: "Evaluates an expression.".into(),
        input_schema: schema,
        output_schema: None,
        class: ToolClass::Read,
        idempotent: true,
        timeout_ms: 1000,
        risk_level: None,
    };
    ModelRequest {
        provider: "openai".into(),
        model: "gpt-4.1-mini".into(),
        phase: Phase::Execution,
        messages,
        tools: vec![tool.into()],
        response_schema: Some(json!({"type": "object"})),
        params: params.as_object().cloned().unwrap_or_default(),
        trace_id: "trace".into(),
        context: CallContext::default(),
    }
}

#[test]
fn the_request_is_what_each_dialect_understands() {
    for (dialect, name) in [(compatible::OPENAI, "openai"), (compatible::ANY, "any")] {
        let path = format!("{}/tests/cassettes/openai/request.{name}.json", env!("CARGO_MANIFEST_DIR"));
        let expected: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(request::body(&dialect, &asked()), expected, "{name}");
    }
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    let cassettes = cassettes();
    assert!(cassettes.len() >= 10);
    for path in cassettes {
        let bytes = fs::read(&path).unwrap();
        let expected: Value = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        for split in 0..=bytes.len() {
            let (left, right) = bytes.split_at(split);
            let (deltas, ended) = read([left, right]);
            assert_eq!(ended, Ok(()), "{} split at {split}", path.display());
            assert_eq!(reply(deltas), expected, "{} split at {split}", path.display());
        }
        assert_eq!(reply(read(bytes.chunks(1)).0), expected, "{} byte by byte", path.display());
    }
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    for path in cassettes() {
        let bytes = fs::read(&path).unwrap();
        let whole = reply(read([bytes.as_slice()]).0);
        for end in 0..bytes.len() {
            let (deltas, ended) = read([&bytes[..end]]);
            let has_stop = deltas.iter().any(|delta| matches!(delta, Delta::Stop(_)));
            assert_eq!(ended.is_ok(), has_stop);
            match ended {
                Err(failure) => assert_eq!(failure.kind, FailureKind::Incomplete, "{} cut at {end}", path.display()),
                Ok(()) => {
                    let said = reply(deltas);
                    assert_eq!((&said["text"], &said["calls"]), (&whole["text"], &whole["calls"]));
                }
            }
        }
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
        assert_eq!(read([text.as_bytes()]).1.unwrap_err().kind, kind, "{text}");
    }
}

#[test]
fn the_number_of_calls_is_bounded_and_other_choices_are_ignored() {
    let call = |index: u64| {
        let call = json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{}"}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    };
    let many: String = (0..300).map(call).collect();
    assert_eq!(read([many.as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);

    let other = json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]});
    let mine = json!({"choices": [{"index": 0, "delta": {"content": "mine"}, "finish_reason": "weird"}]});
    let (deltas, _) = read([format!("data: {other}\n\ndata: {mine}\n\n").as_bytes()]);
    assert_eq!(deltas, [Delta::Text("mine".into()), Delta::Stop(StopReason::Other("weird".into()))]);
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "<think>t</think>hi", "tool_calls": [call]});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    let (mut body, mut deltas) = (Body::whole(), Vec::new());
    whole.as_bytes().chunks(7).for_each(|piece| assert!(!body.take(piece, &mut deltas).unwrap()));
    body.end(&mut deltas).unwrap();
    let said = reply(deltas);
    assert_eq!(
        (&said["text"], &said["thinking"], &said["calls"]),
        (&json!("hi"), &json!("t"), &json!([["c", "f", "{}"]]))
    );
}

#[test]
fn a_megabyte_of_arguments_in_tiny_pieces_costs_linear_time() {
    let piece =
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "0123456789"}}]}}]});
    let piece = format!("data: {piece}\n\n");
    let mut body = Body::of_events(1 << 20);
    let mut bytes = 0;
    for _ in 0..100_000 {
        let mut deltas = Vec::new();
        body.take(piece.as_bytes(), &mut deltas).unwrap();
        let [Delta::ToolCall { arguments, .. }] = deltas.as_slice() else { panic!("{deltas:?}") };
        bytes += arguments.len();
    }
    assert_eq!(bytes, 1_000_000, "each piece is passed on alone, nothing is repeated");
}
