//! Estimates the tokens of a text: cheap, and rather too high than too low.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde_json::Value;

use crate::domain::prompt::PromptMessage;
use crate::domain::tool::ToolSpec;

/// How many tokens a text has.
pub fn of_text(text: &str) -> u64 {
    of_bytes(text.len() as u64)
}

/// How many tokens the JSON text of a value has.
pub fn of_json(value: &Value) -> u64 {
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
pub fn of_prompt(messages: &[PromptMessage], tools: &[Arc<ToolSpec>]) -> u64 {
    let message_tokens = messages.iter().map(|message| match message {
        PromptMessage::System { content } | PromptMessage::User { content } | PromptMessage::Tool { content, .. } => {
            of_text(content)
        }
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let calls: u64 = tool_calls.iter().map(|call| of_json(&call.arguments)).sum();
            of_text(content) + calls + replay.as_ref().map_or(0, of_json)
        }
    });
    message_tokens.sum::<u64>() + tools.iter().map(|tool| of_json(&tool.input_schema)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_counts_as_its_text() {
        for value in [json!(null), json!("é\n\"x\""), json!({"type": "object", "most": [1.5, -2, true], "é": {}})] {
            assert_eq!(of_json(&value), of_text(&value.to_string()), "{value}");
        }
    }
}
