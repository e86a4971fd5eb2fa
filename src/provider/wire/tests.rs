//! Shared by the tests of all wires: cassettes, split at every byte.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Framing, ReplyDecoder, Wire};
use crate::domain::model::{CallContext, Delta, FailureKind, ModelFailure, ModelRequest, Phase};
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::{ToolClass, ToolSpec};

// A single file, also used by the tests over a real socket.
#[path = "../../../tests/it/provider/exchange.rs"]
mod exchange;
pub(crate) use exchange::reply;

/// The deltas of a body in chunks.
pub(crate) fn read<'a, W: Wire>(
    framing: Framing,
    wire: W,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Delta>, Result<(), ModelFailure>) {
    let (mut body, mut deltas) = (ReplyDecoder::new(framing, wire, 2 << 20), Vec::new());
    for piece in pieces {
        match body.push(piece, &mut deltas) {
            Ok(false) => {}
            Ok(true) => return (deltas, Ok(())),
            Err(failure) => return (deltas, Err(failure)),
        }
    }
    let ended = body.finish(&mut deltas);
    (deltas, ended)
}

fn cassettes(folder: &str, extension: &str, least: usize) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|known| known == extension));
    assert!(files.len() >= least, "cassettes are missing");
    files
}

fn expected(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap()
}

/// Every cassette gives its reply wherever its bytes are split, and byte by byte.
pub(crate) fn replay_everywhere<W: Wire>(folder: &str, framing: Framing, least: usize, wire: impl Fn(&str) -> W) {
    for path in cassettes(folder, extension(framing), least) {
        let (bytes, expected) = (fs::read(&path).unwrap(), expected(&path));
        let case = path.file_stem().unwrap().to_str().unwrap();
        for split in 0..=bytes.len() {
            let (left, right) = bytes.split_at(split);
            let (deltas, ended) = read(framing, wire(case), [left, right]);
            assert_eq!(ended, Ok(()), "{} split at {split}", path.display());
            assert_eq!(reply(deltas), expected, "{} split at {split}", path.display());
        }
        assert_eq!(reply(read(framing, wire(case), bytes.chunks(1)).0), expected, "{} byte by byte", path.display());
    }
}

/// A truncated reply is never accepted as a shorter one.
pub(crate) fn cut_everywhere<W: Wire>(folder: &str, framing: Framing, wire: impl Fn(&str) -> W) {
    for path in cassettes(folder, extension(framing), 1) {
        let (bytes, whole) = (fs::read(&path).unwrap(), expected(&path));
        let case = path.file_stem().unwrap().to_str().unwrap();
        for end in 0..bytes.len() {
            let (deltas, ended) = read(framing, wire(case), [&bytes[..end]]);
            let has_stop = deltas.iter().any(|delta| matches!(delta, Delta::Stop(_)));
            assert_eq!(ended.is_ok(), has_stop, "{} cut at {end}", path.display());
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

/// The number of deltas, and of bytes in them, for a call's arguments in `pieces` equal fragments: each fragment is
/// passed on alone, so the work is linear.
pub(crate) fn passed_on<W: Wire>(framing: Framing, wire: W, begin: &str, piece: &str, pieces: usize) -> (usize, usize) {
    let (mut body, mut deltas) = (ReplyDecoder::new(framing, wire, 2 << 20), Vec::new());
    body.push(begin.as_bytes(), &mut deltas).unwrap();
    let (mut count, mut bytes) = (0, 0);
    for _ in 0..pieces {
        deltas.clear();
        body.push(piece.as_bytes(), &mut deltas).unwrap();
        count += deltas.len();
        for delta in &deltas {
            let Delta::ToolCall { arguments, .. } = delta else { panic!("{delta:?}") };
            bytes += arguments.len();
        }
    }
    (count, bytes)
}

fn extension(framing: Framing) -> &'static str {
    match framing {
        Framing::Events => "sse",
        Framing::Lines => "ndjson",
        Framing::Whole => "whole",
    }
}

/// A step in the middle of a tool loop, with everything that a request can contain.
pub(crate) fn asked(model: &str) -> ModelRequest {
    let call = |id: &str, arguments: Value| PromptCall { id: id.into(), name: "calculator".into(), arguments };
    let returned = |id: &str, content: &str| PromptMessage::Tool {
        tool_call_id: id.into(),
        name: "calculator".into(),
        content: content.into(),
    };
    let schema = json!({
        "type": "object",
        "properties": { "expression": { "type": "string", "minLength": 1 } },
        "required": ["expression"],
    });
    let params = json!({
        "temperature": 0.5, "maxTokens": 100, "topP": 0.9, "stop": ["END"], "seed": 7, "reasoningEffort": "low",
    });
    let messages = vec![
        PromptMessage::System { content: "Phase: execution tip\nYou work on one item.".into() },
        PromptMessage::User { content: "Compute a tip of 12% of the bill".into() },
        PromptMessage::Assistant {
            content: "I compute it.".into(),
            tool_calls: vec![call("call_1", json!({"expression": "595 * 12 per cent"})), call("f:2", json!("{\"expr"))],
            replay: None,
        },
        returned("call_1", "error: at character 10"),
        returned("f:2", "error: not JSON"),
    ];
    let tool = ToolSpec::new("calculator", "Evaluates an expression.", ToolClass::Read, schema).with_timeout_ms(1000);
    ModelRequest {
        provider: "openai".into(),
        model: model.into(),
        phase: Phase::Execution,
        messages,
        tools: vec![tool.into()],
        response_schema: None,
        params: params.as_object().cloned().unwrap_or_default(),
        trace_id: "trace".into(),
        trace: Default::default(),
        context: CallContext::default(),
    }
}

/// A plan is requested, in a schema.
pub(crate) fn planned(model: &str) -> ModelRequest {
    let form = json!({
        "type": "object",
        "properties": { "answer": { "type": ["string", "null"] } },
        "required": ["answer"],
        "additionalProperties": false,
    });
    ModelRequest {
        phase: Phase::Planning,
        messages: vec![
            PromptMessage::System { content: "Phase: planning".into() },
            PromptMessage::Assistant { content: "Hello".into(), tool_calls: Vec::new(), replay: None },
            PromptMessage::User { content: "Plan.".into() },
        ],
        tools: Vec::new(),
        response_schema: Some(form.into()),
        params: Default::default(),
        ..asked(model)
    }
}
