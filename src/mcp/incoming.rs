//! Reads the messages of a server. The library reads a message as a whole or not at all, so a message that does not keep
//! to the protocol in all its parts is put right here first: what can be read is kept, and the rest is named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rmcp::RoleClient;
use rmcp::model::{ContentBlock, ErrorCode, InputRequest, JsonRpcMessage, ServerResult, Tool};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::call_errors::cut;
use super::tasks::TaskTools;

/// The members of a tool that are used here.
const USED_MEMBERS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// How much of a question is told that cannot be read.
const MAX_QUESTION_CHARS: usize = 2_000;

/// The members of content that are not used here.
const UNUSED_CONTENT_MEMBERS: [&str; 3] = ["_meta", "annotations", "icons"];

pub(super) type Message = RxJsonRpcMessage<RoleClient>;

/// Reads the messages of one connection.
#[derive(Clone)]
pub(super) struct Reader {
    server: Arc<str>,
    pub(super) tasks: TaskTools,
    /// The member of a tool's `_meta` that says why its definition cannot be read. It is random, so that no server can set it.
    unreadable: Arc<str>,
    /// Whether it was logged that messages had to be put right.
    has_warned: Arc<AtomicBool>,
    /// Why nothing more is read, if that was not the end of the connection.
    broken: Arc<OnceLock<String>>,
}

impl Reader {
    pub(super) fn new(server: Arc<str>) -> Self {
        let unreadable = format!("pes/unreadable/{}", Uuid::new_v4()).into();
        Self { server, tasks: TaskTools::default(), unreadable, has_warned: Arc::default(), broken: Arc::default() }
    }

    /// Why the definition of this tool cannot be read; `None`: it can.
    pub(super) fn why_unreadable<'t>(&self, tool: &'t Tool) -> Option<&'t str> {
        tool.meta.as_ref()?.0.get(&*self.unreadable)?.as_str()
    }

    /// Nothing more is read.
    pub(super) fn break_off(&self, why: String) {
        tracing::warn!(server = &*self.server, why, "the connection to an MCP server is given up");
        self.broken.get_or_init(|| why);
    }

    pub(super) fn why_broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    pub(super) fn read(&self, message: &[u8]) -> Result<Message, serde_json::Error> {
        self.tasks.inspect(message);
        let read = serde_json::from_slice::<Message>(message);
        match self.put_right(message, &read) {
            Some(mended) => serde_json::from_value(mended).or(read),
            None => read,
        }
    }

    /// The same message as the library can read it; `None`: it can read it as it is, or not at all.
    pub(super) fn readable(&self, message: &str) -> Option<String> {
        self.tasks.inspect(message.as_bytes());
        let read = serde_json::from_str::<Message>(message);
        self.put_right(message.as_bytes(), &read).map(|mended| mended.to_string())
    }

    /// Many programs print lines that are no messages.
    pub(super) fn leave_out(&self, error: &serde_json::Error) {
        tracing::debug!(server = &*self.server, %error, "a line of an MCP server is no message");
    }

    fn put_right(&self, message: &[u8], read: &Result<Message, serde_json::Error>) -> Option<Value> {
        let is_of_unknown_form = match read {
            Ok(JsonRpcMessage::Response(said)) => matches!(said.result, ServerResult::CustomResult(_)),
            Ok(_) => false,
            Err(error) => error.is_data(),
        };
        let message = is_of_unknown_form.then(|| serde_json::from_slice(message).ok()).flatten()?;
        let mended = answer(message, &self.unreadable)?;
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server = &*self.server,
                "this MCP server does not keep to the protocol; its messages are read as far as they can be"
            );
        }
        Some(mended)
    }
}

/// An answer to one of our requests, put right; `None`: it is none. `unreadable` is the member of `_meta` that says why a
/// tool cannot be read.
fn answer(mut message: Map<String, Value>, unreadable: &str) -> Option<Value> {
    let id = message.remove("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64())?;
    if message.contains_key("method") {
        return None;
    }
    let (result, error) = (message.remove("result"), message.remove("error"));
    if let Some(error) = error.filter(|error| !error.is_null()) {
        return Some(json!({ "jsonrpc": "2.0", "id": id, "error": readable_error(error) }));
    }
    let result = match result? {
        Value::Null => json!({}),
        Value::Object(result) => {
            if let Some(why) = unreadable_question(&result) {
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": readable_error(why.into()) }));
            }
            Value::Object(readable_result(result, unreadable))
        }
        other => other,
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Why the question with which a server replies to a call cannot be asked: the protocol knows few forms.
fn unreadable_question(result: &Map<String, Value>) -> Option<String> {
    result.get("resultType").filter(|kind| *kind == "input_required")?;
    let mut requests = result.get("inputRequests")?.as_object()?.values();
    let request = requests.find(|request| !is_readable::<InputRequest>(request))?;
    let form = request.pointer("/params/requestedSchema").unwrap_or(request);
    let form = cut(form.to_string(), MAX_QUESTION_CHARS);
    Some(format!("The server asks in a form that the protocol does not know, so nobody was asked: {form}"))
}

fn readable_error(error: Value) -> Value {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = match error.get("message") {
        Some(Value::String(message)) => message.clone(),
        Some(other) => other.to_string(),
        None => error.as_str().map_or_else(|| error.to_string(), str::to_owned),
    };
    let mut readable = json!({ "code": code.unwrap_or(ErrorCode::INTERNAL_ERROR.0), "message": message });
    if let Some(data) = error.get("data") {
        readable["data"] = data.clone();
    }
    readable
}

/// Lists of tools, and results of calls, are put right; other results stay as they are.
fn readable_result(mut result: Map<String, Value>, unreadable: &str) -> Map<String, Value> {
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        for (place, tool) in tools.iter_mut().enumerate() {
            *tool = readable_tool(place, tool.take(), unreadable);
        }
    } else if let Some(content) = result.get_mut("content").filter(|content| !is_readable::<Vec<ContentBlock>>(content))
    {
        *content = match content.take() {
            Value::Null => json!([]),
            Value::Array(blocks) => blocks.into_iter().map(readable_block).collect(),
            other => json!([readable_block(other)]),
        };
    }
    result
}

/// A definition that cannot be read keeps its name, and says why.
fn readable_tool(place: usize, mut tool: Value, unreadable: &str) -> Value {
    if is_readable::<Tool>(&tool) {
        return tool;
    }
    if let Value::Object(members) = &mut tool {
        members.retain(|name, _| USED_MEMBERS.contains(&name.as_str()));
    }
    let Err(error) = serde_path_to_error::deserialize::<_, Tool>(&tool) else { return tool };
    let path = error.path().to_string();
    let why = match path.as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    };
    let name = tool["name"].as_str().map_or_else(|| format!("tools/{place}"), str::to_owned);
    json!({ "name": name, "inputSchema": {}, "_meta": { unreadable: why } })
}

/// Content that cannot be read becomes a text that says so.
fn readable_block(mut block: Value) -> Value {
    if let Value::Object(members) = &mut block {
        members.retain(|name, _| !UNUSED_CONTENT_MEMBERS.contains(&name.as_str()));
        // A link may be called by its address.
        if members.get("type").is_some_and(|kind| kind == "resource_link")
            && let Some(uri) = members.get("uri").cloned()
        {
            members.entry("name").or_insert(uri);
        }
    }
    let Err(error) = ContentBlock::deserialize(&block) else { return block };
    let text = match block.get("type").and_then(Value::as_str) {
        Some(kind @ ("text" | "image" | "audio" | "resource" | "resource_link")) => {
            format!("[{kind} that cannot be read: {error}]")
        }
        Some(kind) => format!("[content of an unknown kind: {kind}]"),
        None => block.as_str().map_or_else(|| "[content of an unknown kind]".to_owned(), str::to_owned),
    };
    json!({ "type": "text", "text": text })
}

fn is_readable<'v, T: Deserialize<'v>>(value: &'v Value) -> bool {
    T::deserialize(value).is_ok()
}

#[cfg(test)]
mod tests;
