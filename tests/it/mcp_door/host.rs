//! An MCP host that hides nothing: one request, and its complete response.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, Events};

/// A host of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(pub &'static str);

pub const OLD: Host = Host("2025-06-18");
pub const MIDDLE: Host = Host("2025-11-25");
pub const NEW: Host = Host("2026-07-28");
pub const ALL: [Host; 3] = [OLD, MIDDLE, NEW];

impl Host {
    pub fn is_new(self) -> bool {
        self == NEW
    }

    /// A request as a client of this version sends it.
    pub fn request(self, app: &App, method: &str, mut params: Value) -> Ask {
        let mut ask = app.ask("POST", "/mcp").header("mcp-protocol-version", self.0);
        ask = ask.header("accept", "application/json, text/event-stream");
        if self.is_new() {
            ask = ask.header("mcp-method", method);
            if let Some(tool) = params.get("name").or(params.get("taskId")).and_then(Value::as_str) {
                ask = ask.header("mcp-name", tool);
            }
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.0);
            if meta.get("io.modelcontextprotocol/clientCapabilities").is_none() {
                meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            }
        }
        ask.json(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
    }

    /// The response message.
    pub async fn say(self, app: &App, method: &str, params: Value) -> Value {
        let said = self.request(app, method, params).send().await;
        assert_eq!(said.status, 200, "{}", said.text());
        let message = match said.header("content-type") {
            Some("text/event-stream") => {
                let text = said.text();
                let last = text.trim_end().rsplit_once("data: ").expect("an event").1;
                serde_json::from_str(last).expect("it is JSON")
            }
            _ => said.json(),
        };
        assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(7)), "{message:#}");
        message
    }

    /// The result of a tool.
    pub async fn call(self, app: &App, tool: &str, arguments: Value) -> Value {
        let message = self.say(app, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = message["result"].clone();
        assert!(result.is_object(), "{message:#}");
        assert_eq!(result.get("resultType").is_some(), self.is_new(), "{result:#}");
        result
    }

    /// The data of the result of a tool that did not fail.
    pub async fn data(self, app: &App, tool: &str, arguments: Value) -> Value {
        let result = self.call(app, tool, arguments).await;
        assert_eq!(result["isError"], false, "{result:#}");
        result["structuredContent"].clone()
    }

    /// A call whose response is a stream of events.
    pub async fn events(self, app: &App, tool: &str, arguments: Value) -> Events {
        self.request(app, "tools/call", json!({ "name": tool, "arguments": arguments })).events().await
    }
}

/// The text of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}
