//! Converts the lines of a streamed chat into deltas. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason, Usage};
use crate::provider::http::{failure, in_stream};
use crate::provider::think::Splitter;
use crate::provider::wire;

/// Maximum number of tool calls in one reply; far above what any run accepts.
const MAX_CALLS: u32 = 256;

/// The state of one reply.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    splitter: Splitter,
    calls: u32,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    is_finished: bool,
}

#[derive(Deserialize)]
struct StreamedLine {
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    done: Option<bool>,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl Wire {
    fn message(&mut self, message: Message, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        deltas.extend(message.thinking.filter(|text| !text.is_empty()).map(Delta::Thinking));
        self.splitter.push_deltas(message.content.unwrap_or_default(), deltas);
        for call in message.tool_calls.unwrap_or_default() {
            if self.calls == MAX_CALLS {
                return Err(failure(FailureKind::Broken, format!("the reply has more than {MAX_CALLS} tool calls")));
            }
            let arguments = match call.function.arguments {
                Value::String(text) => text,
                Value::Null => "{}".to_owned(),
                other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
            };
            let id = call.id.filter(|id| !id.is_empty());
            deltas.push(Delta::ToolCall { index: self.calls, id, name: Some(call.function.name), arguments });
            self.calls += 1;
        }
        Ok(())
    }

    /// `done` marks the end; older servers send no reason with it.
    fn stop(&self, reason: Option<String>) -> StopReason {
        match reason.as_deref() {
            None | Some("stop" | "") if self.calls > 0 => StopReason::ToolUse,
            None | Some("stop" | "") => StopReason::EndTurn,
            Some("length") => StopReason::MaxTokens,
            Some(other) => StopReason::Other(other.to_owned()),
        }
    }
}

impl wire::Wire for Wire {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let line: StreamedLine = serde_json::from_str(data)
            .map_err(|error| failure(FailureKind::Broken, format!("a line is not of the protocol: {error}")))?;
        if let Some(error) = line.error {
            // Ollama rejects requests before it streams, so this is a crashed runner.
            return Err(ModelFailure { kind: FailureKind::Retry, ..in_stream(&json!({ "error": error })) });
        }
        if let Some(message) = line.message {
            self.message(message, deltas)?;
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            self.usage = Some(Usage {
                input_tokens: line.prompt_eval_count.unwrap_or(0),
                output_tokens: line.eval_count.unwrap_or(0),
                ..Usage::default()
            });
        }
        if line.done == Some(true) {
            self.stop = Some(self.stop(line.done_reason));
            self.is_finished = true;
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        self.splitter.finish(deltas);
        deltas.extend(self.usage.take().map(Delta::Usage));
        let missing = || failure(FailureKind::Incomplete, "the reply ended before it was done");
        deltas.push(Delta::Stop(self.stop.take().ok_or_else(missing)?));
        Ok(())
    }
}
