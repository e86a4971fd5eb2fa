//! The messages that a client builds from events with its own reducer, except those that only the client keeps
//! (activities and thoughts).

use serde_json::{Value, json};

#[derive(Clone, Debug, Default)]
pub(super) struct ClientMessages(Vec<Value>);

impl ClientMessages {
    pub(super) fn all(&self) -> &[Value] {
        &self.0
    }

    pub(super) fn has_text(&self) -> bool {
        self.0.iter().any(|message| message["role"] == "assistant" && message["content"].is_string())
    }

    pub(super) fn apply(&mut self, event: &Value) {
        let id = |name: &str| event[name].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("TEXT_MESSAGE_START") if self.message(id("messageId")).is_none() => {
                self.0.push(json!({ "id": event["messageId"], "role": "assistant", "content": "" }));
            }
            Some("TEXT_MESSAGE_CONTENT") => {
                if let Some(message) = self.message(id("messageId")) {
                    add(&mut message["content"], id("delta"));
                }
            }
            Some("TOOL_CALL_START") if self.of_call(id("toolCallId")).is_none() => {
                let function = json!({ "name": event["toolCallName"], "arguments": "" });
                let call = json!({ "id": event["toolCallId"], "type": "function", "function": function });
                self.0.push(json!({ "id": event["toolCallId"], "role": "assistant", "toolCalls": [call] }));
            }
            Some("TOOL_CALL_ARGS") => {
                if let Some(at) = self.of_call(id("toolCallId")) {
                    add(&mut self.0[at]["toolCalls"][0]["function"]["arguments"], id("delta"));
                }
            }
            Some("TOOL_CALL_RESULT") => {
                let at = self.of_call(id("toolCallId")).map_or(self.0.len(), |at| at + 1);
                let result = json!({
                    "id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"],
                    "content": event["content"],
                });
                self.0.insert(at, result);
            }
            Some(_) | None => {}
        }
    }

    fn message(&mut self, id: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|message| message["id"] == id)
    }

    /// The index of the message with this call.
    fn of_call(&self, call: &str) -> Option<usize> {
        self.0.iter().position(|message| message["toolCalls"][0]["id"] == call)
    }
}

fn add(text: &mut Value, more: &str) {
    if let Value::String(text) = text {
        text.push_str(more);
    }
}
