//! The result of one reply as a cassette records it. The tests inside `src/provider` include this file too; there
//! `crate` is the library itself.

use serde_json::{Value, json};

use crate::domain::model::{Delta, Usage};

/// The reply that the deltas add up to, in the shape of `tests/cassettes/*/*.json`.
pub fn reply(deltas: Vec<Delta>) -> Value {
    let (mut text, mut thinking, mut usage, mut stop) = (String::new(), String::new(), Usage::default(), None);
    let (mut calls, mut replay): (Vec<[String; 3]>, _) = (Vec::new(), None);
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::Thinking(piece) => thinking.push_str(&piece),
            Delta::WasThinking => thinking.push_str(&std::mem::take(&mut text)),
            Delta::ToolCall { index, id, name, arguments } => {
                calls.resize_with(calls.len().max(index as usize + 1), Default::default);
                let call = &mut calls[index as usize];
                call[0].extend(id);
                call[1].extend(name);
                call[2].push_str(&arguments);
            }
            Delta::Usage(counted) => usage = counted,
            Delta::Stop(reason) => stop = Some(reason),
            Delta::Replay(blocks) => assert_eq!(replay.replace(blocks), None, "a reply has one replay"),
        }
    }
    let mut said = json!({ "text": text, "thinking": thinking, "calls": calls, "usage": usage, "stop": stop });
    if let Some(replay) = replay {
        said["replay"] = replay;
    }
    said
}
