//! Arbitrary bytes in arbitrary chunks: no wire panics, the chunking has no effect, nothing is invented, and no text is
//! lost.

use proptest::prelude::*;
use serde_json::json;

use super::recorded;
use crate::domain::model::{Delta, FailureKind};

/// Valid and invalid frames of all wires; each wire also gets the frames of the others as noise.
const FRAMES: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"content":"a<th"}}]}"#,
    r#"{"choices":[{"delta":{"content":"ink>b</think>c","reasoning_content":"r"}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":18446744073709551615,"function":{"arguments":"}"}}]}}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    "[DONE]",
    r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t"}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"x"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
    r#"{"type":"message_stop"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"g"},{"functionCall":{"name":"f"},"thoughtSignature":"s"}]}}]}"#,
    r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}"#,
    r#"{"message":{"content":"o","thinking":"p","tool_calls":[{"function":{"name":"f","arguments":{}}}]}}"#,
    r#"{"done":true,"done_reason":"stop","eval_count":3}"#,
    r#"{"error":{"message":"m","code":500}}"#,
    r#"{"choices":[null]}"#,
    "[[[[",
    "\"\\ud800\"",
];
const WIRES: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let frame = prop::sample::select(FRAMES);
    prop_oneof![
        4 => frame.clone().prop_map(|frame| format!("data: {frame}\n\n").into_bytes()),
        4 => frame.clone().prop_map(|frame| format!("{frame}\n").into_bytes()),
        1 => frame.prop_flat_map(|frame| (0..frame.len()).prop_map(move |end| frame.as_bytes()[..end].to_vec())),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::sample::select(&[": c\n", "\r\n\r\n", "data:", "event: x\n", "\u{FEFF}"][..]).prop_map(|text| text.into()),
    ]
}

/// Text, thinking, names and arguments together; and the end of the reply.
fn heard<'a>(wire: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, Result<(), FailureKind>) {
    let mut all = String::new();
    let ended = recorded(wire, pieces, |delta| match delta {
        Delta::Text(text) | Delta::Thinking(text) => all.push_str(&text),
        Delta::ToolCall { name, arguments, .. } => {
            all.push_str(&name.unwrap_or_default());
            all.push_str(&arguments);
        }
        Delta::WasThinking | Delta::Replay(_) | Delta::Usage(_) | Delta::Stop(_) => {}
    });
    (all, ended.unwrap().map_err(|failure| failure.kind))
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_give_one_outcome_and_nothing_is_made_up(
        soup in prop::collection::vec(piece(), 0..12),
        cuts in prop::collection::vec(0usize..2_000, 0..10),
    ) {
        let bytes = soup.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        for wire in WIRES {
            let whole = heard(wire, [bytes.as_slice()]);
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(&heard(wire, pieces), &whole, "{}", wire);
            // A call without arguments is reported as an empty object.
            prop_assert!(whole.0.len() <= bytes.len() + 2 * soup.len(), "{} made up {:?}", wire, whole.0);
        }
    }

    #[test]
    fn no_text_is_lost(texts in prop::collection::vec("[a-s<>/é\"\\\\\n ]{0,6}", 0..12), chunk in 1usize..50) {
        for wire in WIRES {
            let (mut body, said) = (String::new(), texts.concat());
            for text in &texts {
                body += &match wire {
                    "openai" => format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]})),
                    "anthropic" => {
                        let delta = json!({"type": "text_delta", "text": text});
                        format!("data: {}\n\n", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
                    }
                    "gemini" => {
                        format!("data: {}\r\n\r\n", json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}))
                    }
                    _ => format!("{}\n", json!({"message": {"content": text}})),
                };
            }
            prop_assert_eq!(heard(wire, body.as_bytes().chunks(chunk)), (said, Err(FailureKind::Incomplete)), "{}", wire);
        }
    }
}
