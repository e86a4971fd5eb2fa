//! Builds the message for a page that reloads: what the client itself would have built from the chunks.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::chunk::{Chunk, ToolHead};

/// A `UIMessage` of the assistant.
#[derive(Clone, Debug, Default)]
pub(super) struct UiMessage {
    id: String,
    metadata: Map<String, Value>,
    parts: Vec<Value>,
    /// The indexes of the parts that are still being written, by their ids.
    writing: HashMap<String, usize>,
}

impl UiMessage {
    pub(super) fn json(&self) -> Value {
        json!({ "id": self.id, "role": "assistant", "metadata": self.metadata, "parts": self.parts })
    }

    pub(super) fn has_text(&self) -> bool {
        self.parts.iter().any(|part| part["type"] == "text")
    }

    /// Adds a complete text.
    pub(super) fn add_text(&mut self, text: &str) {
        self.parts.push(json!({ "type": "text", "text": text, "state": "done" }));
    }

    pub(super) fn apply(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Start { message_id, message_metadata } => {
                self.id = message_id;
                self.add_metadata(message_metadata);
            }
            Chunk::Finish { message_metadata, .. } => self.add_metadata(message_metadata.unwrap_or_default()),
            Chunk::StartStep => self.parts.push(json!({ "type": "step-start" })),
            Chunk::TextStart { id } => self.begin_part("text", id),
            Chunk::ReasoningStart { id } => self.begin_part("reasoning", id),
            Chunk::TextDelta { id, delta } | Chunk::ReasoningDelta { id, delta } => self.append(&id, &delta),
            Chunk::TextEnd { id } | Chunk::ReasoningEnd { id } => self.end_part(&id),
            Chunk::ToolInputStart(_) => {}
            Chunk::ToolInputAvailable { head, input } => self.set_call(head, input),
            Chunk::ToolApprovalRequest { approval_id, tool_call_id } => self.update_call(&tool_call_id, |part| {
                part["state"] = json!("approval-requested");
                part["approval"] = json!({ "id": approval_id });
            }),
            Chunk::ToolOutputAvailable { tool_call_id, output, .. } => self.update_call(&tool_call_id, |part| {
                part["state"] = json!("output-available");
                part["output"] = output;
            }),
            Chunk::ToolOutputError { tool_call_id, error_text, .. } => self.update_call(&tool_call_id, |part| {
                part["state"] = json!("output-error");
                part["errorText"] = json!(error_text);
            }),
            Chunk::ToolOutputDenied { tool_call_id } => self.update_call(&tool_call_id, |part| {
                part["state"] = json!("output-denied");
                if part["approval"].is_object() {
                    part["approval"]["approved"] = json!(false);
                }
            }),
            link @ Chunk::SourceUrl { .. } => self.parts.push(link.json()),
            Chunk::DataPlan { id, data } => self.set_data("data-plan", &id, data),
            Chunk::DataQuestion { id, data } => self.set_data("data-question", &id, data),
            Chunk::DataSuggestions { id, data } => self.set_data("data-suggestions", &id, data),
            Chunk::FinishStep | Chunk::Error { .. } | Chunk::Abort { .. } => {}
        }
    }

    pub(super) fn add_metadata(&mut self, metadata: Value) {
        if let Value::Object(metadata) = metadata {
            self.metadata.extend(metadata);
        }
    }

    fn begin_part(&mut self, kind: &str, id: String) {
        self.writing.insert(id, self.parts.len());
        self.parts.push(json!({ "type": kind, "text": "", "state": "streaming" }));
    }

    fn append(&mut self, id: &str, delta: &str) {
        let part = self.writing.get(id).and_then(|at| self.parts.get_mut(*at));
        if let Some(Value::String(text)) = part.map(|part| &mut part["text"]) {
            text.push_str(delta);
        }
    }

    fn end_part(&mut self, id: &str) {
        if let Some(part) = self.writing.remove(id).and_then(|at| self.parts.get_mut(at)) {
            part["state"] = json!("done");
        }
    }

    fn set_call(&mut self, head: ToolHead, input: Value) {
        let ToolHead { tool_call_id, tool_name, dynamic, provider_executed } = head;
        let kind = if dynamic { "dynamic-tool".to_owned() } else { format!("tool-{tool_name}") };
        let mut part = json!({
            "type": kind, "toolCallId": tool_call_id, "state": "input-available", "input": input,
            "providerExecuted": provider_executed,
        });
        if dynamic {
            part["toolName"] = json!(tool_name);
        }
        match self.parts.iter_mut().find(|known| known["toolCallId"] == part["toolCallId"]) {
            Some(known) => {
                if known["approval"].is_object() {
                    part["approval"] = known["approval"].take();
                    part["approval"]["approved"] = json!(true);
                }
                *known = part;
            }
            None => self.parts.push(part),
        }
    }

    fn update_call(&mut self, id: &str, change: impl FnOnce(&mut Value)) {
        if let Some(part) = self.parts.iter_mut().find(|part| part["toolCallId"] == id) {
            change(part);
        }
    }

    fn set_data(&mut self, kind: &str, id: &str, data: Value) {
        match self.parts.iter_mut().find(|part| part["type"] == kind && part["id"] == id) {
            Some(part) => part["data"] = data,
            None => self.parts.push(json!({ "type": kind, "id": id, "data": data })),
        }
    }
}
