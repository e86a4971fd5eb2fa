//! Estimates the tokens of a text: cheap, and rather too high than too low.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde_json::Value;

use crate::domain::prompt::PromptMessage;
use crate::domain::tool::ToolSpec;

/// How many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    of_bytes(text.len() as u64)
}

/// How many tokens the JSON text of a value has.
pub fn json_tokens(value: &Value) -> u64 {
    let mut bytes = ByteCount(0);
    write!(bytes, "{value}").expect("counting cannot fail");
    of_bytes(bytes.0)
}

fn of_bytes(bytes: u64) -> u64 {
    bytes / 3 + 1
}

/// Counts what is written to it: large schemas are estimated for every model call, and their text is not needed.
struct ByteCount(u64);

impl Write for ByteCount {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

/// How many tokens a whole prompt has.
pub fn size(messages: &[PromptMessage], tools: &[Arc<ToolSpec>]) -> u64 {
    let message_tokens = messages.iter().map(|message| match message {
        PromptMessage::System { content } | PromptMessage::User { content } | PromptMessage::Tool { content, .. } => {
            tokens(content)
        }
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let calls: u64 = tool_calls.iter().map(|call| json_tokens(&call.arguments)).sum();
            tokens(content) + calls + replay.as_ref().map_or(0, json_tokens)
        }
    });
    message_tokens.sum::<u64>() + tools.iter().map(|tool| json_tokens(&tool.input_schema)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_counts_as_its_text() {
        for value in [json!(null), json!("é\n\"x\""), json!({"type": "object", "most": [1.5, -2, true], "é": {}})] {
            assert_eq!(json_tokens(&value), tokens(&value.to_string()), "{value}");
        }
    }
}
