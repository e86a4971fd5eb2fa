//! What a run does besides its answer, as items: its thoughts, its tool calls, its questions.

use serde_json::{Value, json};

use super::{ResponseEvents, ResponseHead, merged};
use crate::domain::hitl::AskedQuestion;
use crate::domain::tool::{ToolResult, ToolStatus};
use crate::http::doors::question;

impl ResponseEvents {
    pub(super) fn reasoning(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.close("incomplete");
        let id = self.item_added("rs", |id| json!({ "type": "reasoning", "id": id, "summary": [] }));
        let place = json!({ "item_id": id, "output_index": self.state.index(), "summary_index": 0 });
        let part = |text: &str| json!({ "type": "summary_text", "text": text });
        self.emit("response.reasoning_summary_part.added", merged(&place, json!({ "part": part("") })));
        self.emit("response.reasoning_summary_text.delta", merged(&place, json!({ "delta": text })));
        self.emit("response.reasoning_summary_text.done", merged(&place, json!({ "text": text })));
        self.emit("response.reasoning_summary_part.done", merged(&place, json!({ "part": part(text) })));
        self.item_done(json!({ "type": "reasoning", "id": id, "summary": [part(text)] }));
    }

    /// A call of one of the agent's tools, with its result.
    pub(super) fn call_ended(&mut self, result: &ToolResult) {
        let arguments = self.arguments.get(&result.call_id).map_or_else(|| "{}".to_owned(), Value::to_string);
        let item = |id: &str, arguments: &str, status: &str| {
            json!({
                "type": "mcp_call", "id": id, "server_label": "pes", "name": result.tool_name, "arguments": arguments,
                "output": null, "error": null, "status": status, "approval_request_id": null,
            })
        };
        let id = self.item_added("mcp", |id| item(id, "", "in_progress"));
        let place = json!({ "item_id": id, "output_index": self.state.index() });
        self.emit("response.mcp_call.in_progress", place.clone());
        self.emit("response.mcp_call_arguments.done", merged(&place, json!({ "arguments": arguments })));
        let mut done = item(&id, &arguments, "completed");
        if result.status == ToolStatus::Success {
            done["output"] = json!(result.output.as_ref().map(plain));
            self.emit("response.mcp_call.completed", place);
        } else {
            let message = result.error.as_ref().map_or("It was not done.", |error| error.message.as_str());
            let content = [json!({ "type": "text", "text": message })];
            done["error"] = json!({ "type": "mcp_tool_execution_error", "content": content });
            done["status"] = json!("failed");
            self.emit("response.mcp_call.failed", place);
        }
        self.item_done(done);
    }

    pub(super) fn question_asked(&mut self, asked: &AskedQuestion) {
        let text = question::text(asked, self.urls.as_ref());
        self.whole_text(&text);
        self.close("completed");
    }

    /// The client knows a call by its suspension id, which is enough to find the thread again.
    pub(super) fn function_call(&mut self, asked: &AskedQuestion) {
        let arguments = question::arguments(asked);
        let name = asked.tool_name.clone().unwrap_or_default();
        let namespace = self.head.namespace_of(&name).map(str::to_owned);
        let item = |id: &str, arguments: &str, status: &str| {
            let mut item = json!({
                "type": "function_call", "id": id, "call_id": asked.suspension_id, "name": name,
                "arguments": arguments, "status": status,
            });
            if let Some(namespace) = &namespace {
                item[ResponseHead::NAMESPACE] = json!(namespace);
            }
            item
        };
        let id = self.item_added("fc", |id| item(id, "", "in_progress"));
        let place = json!({ "item_id": id, "output_index": self.state.index() });
        self.emit("response.function_call_arguments.delta", merged(&place, json!({ "delta": arguments })));
        let done = json!({ "arguments": arguments, "name": name });
        self.emit("response.function_call_arguments.done", merged(&place, done));
        self.item_done(item(&id, &arguments, "completed"));
    }

    pub(super) fn approval_request(&mut self, asked: &AskedQuestion) {
        let item = json!({
            "type": "mcp_approval_request", "id": asked.suspension_id, "server_label": "pes", "name": asked.tool_name,
            "arguments": question::arguments(asked),
        });
        self.item_added("", |_| item.clone());
        self.item_done(item);
    }

    /// Adds an item. The item's id contains the id of the response.
    pub(super) fn item_added(&mut self, prefix: &str, item: impl FnOnce(&str) -> Value) -> String {
        let id = self.head.item_id(prefix, self.state.next_index());
        let item = item(&id);
        let id = item["id"].as_str().unwrap_or(&id).to_owned();
        self.state.output.push(item.clone());
        self.emit("response.output_item.added", json!({ "output_index": self.state.index(), "item": item }));
        id
    }

    pub(super) fn item_done(&mut self, item: Value) {
        if let Some(last) = self.state.output.last_mut() {
            *last = item.clone();
        }
        self.emit("response.output_item.done", json!({ "output_index": self.state.index(), "item": item }));
    }
}

/// A tool's output as text.
fn plain(output: &Value) -> String {
    output.as_str().map_or_else(|| output.to_string(), str::to_owned)
}
