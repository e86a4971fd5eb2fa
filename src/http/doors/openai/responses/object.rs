//! A response as an object: its fixed part and its state.

use serde_json::{Map, Value, json};

use crate::domain::Millis;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::model::Usage;
use crate::domain::run::RunResource;
use crate::http::doors::openai::run_request::METADATA_KEY;

/// The id of a response: a run, and the last `seq` of its thread's log before the response. That is enough to find the
/// response and to send it again. It has two forms:
///
/// - `resp_run_0199…_17`: the run begins with this response, after `seq` 17 of the log.
/// - `resp_run_0199…_42c2`: the run was suspended. The first two `AGENT_RESUMED` after `seq` 42 belong to the request
///   of this response, so they do not end it. Whatever makes the run go on after that belongs to another response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResponseId {
    pub(super) run: RunId,
    pub(super) start: i64,
    /// The number of answers that the request gave to the suspended run. `None` if the run begins here.
    pub(super) answers: Option<u32>,
}

impl ResponseId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (run, place) = text.strip_prefix("resp_")?.rsplit_once('_')?;
        let (start, answers) = match place.split_once('c') {
            Some((start, answers)) => (start, Some(digits(answers)?.parse().ok()?)),
            None => (place, None),
        };
        Some(Self { run: run.into(), start: digits(start)?.parse().ok()?, answers })
    }

    /// The id of the response that an item belongs to, from the item's id.
    pub(super) fn of_item(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('_')?;
        let (response, _) = rest.rsplit_once('_')?;
        ["msg", "rs", "mcp", "fc"].contains(&prefix).then(|| Self::parse(&format!("resp_{response}")))?
    }
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "resp_{}_{}", self.run, self.start)?;
        self.answers.map_or(Ok(()), |answers| write!(f, "c{answers}"))
    }
}

fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

/// The part of a response that is fixed from its beginning.
#[derive(Clone, Debug)]
pub(super) struct ResponseHead {
    id: ResponseId,
    pub(super) run: RunId,
    pub(super) start: i64,
    /// How many answers made the run go on.
    pub(super) answers: u32,
    pub(super) takes_approvals: bool,
    thread: ThreadId,
    created_at: Millis,
    /// Members of the request, as the client sent them.
    stored: Map<String, Value>,
}

impl ResponseHead {
    /// The member of `stored` with the format of a JSON answer.
    pub(super) const FORMAT: &str = "format";

    /// The member of `stored` that is there if the request named a conversation. Some clients continue the conversation
    /// of a response, if it has one, instead of the response.
    pub(super) const CONVERSATION: &str = "conversation";

    /// The type of a tool that is a list of functions under a name.
    pub(super) const NAMESPACE: &str = "namespace";

    /// The head of a response of this run. `metadata` is that of the run's message.
    pub(super) fn of(id: ResponseId, run: &RunResource, metadata: Option<&Map<String, Value>>) -> Self {
        let stored = metadata.and_then(|metadata| metadata.get(METADATA_KEY)?.as_object().cloned()).unwrap_or_default();
        Self {
            run: id.run.clone(),
            start: id.start,
            answers: id.answers.unwrap_or(0),
            id,
            takes_approvals: stored.get("approvals") == Some(&json!(true)),
            thread: run.thread_id.clone(),
            created_at: run.created_at,
            stored,
        }
    }

    pub(super) fn item_id(&self, prefix: &str, index: usize) -> String {
        let id = self.id.to_string();
        format!("{prefix}_{}_{index}", id.trim_start_matches("resp_"))
    }

    /// The namespace in which the client declared this function. A client finds the function only with it.
    pub(super) fn namespace_of(&self, function: &str) -> Option<&str> {
        let tools = self.stored.get("tools")?.as_array()?;
        let has_function = |tool: &&Value| {
            let functions = tool["tools"].as_array().filter(|_| tool["type"] == Self::NAMESPACE);
            functions.is_some_and(|functions| functions.iter().any(|one| one["name"] == function))
        };
        tools.iter().find(has_function)?["name"].as_str()
    }

    pub(super) fn is_background(&self) -> bool {
        self.stored.get("background") == Some(&json!(true))
    }

    /// Whether the answer is JSON. Only the whole of it is useful, so only the whole is sent.
    pub(super) fn is_json(&self) -> bool {
        self.stored.contains_key(Self::FORMAT)
    }

    pub(super) fn response(&self, state: &ResponseState) -> Value {
        let stored_member = |name: &str| self.stored.get(name).cloned().unwrap_or(Value::Null);
        let status = state.status.unwrap_or("in_progress");
        let mut metadata = self.stored.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.insert("pes_thread".to_owned(), json!(self.thread));
        metadata.insert("pes_run".to_owned(), json!(self.run));
        if let Some(code) = &state.code {
            metadata.insert("pes_code".to_owned(), json!(code));
        }
        let is_done = state.status.is_some();
        let incomplete = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        json!({
            "id": self.id.to_string(),
            "object": "response",
            "created_at": self.created_at / 1000,
            "status": status,
            "background": self.is_background(),
            "error": state.failure.as_deref().map(error),
            "incomplete_details": incomplete,
            "instructions": stored_member("instructions"),
            "max_output_tokens": stored_member("max_output_tokens"),
            "model": stored_member("model"),
            "output": state.output,
            "parallel_tool_calls": true,
            "previous_response_id": stored_member("previous_response_id"),
            "conversation": self.stored.contains_key(Self::CONVERSATION).then(|| json!({ "id": self.thread })),
            "reasoning": { "effort": stored_member("reasoning")["effort"], "summary": null },
            "store": true,
            "temperature": stored_member("temperature"),
            "text": { "format": self.stored.get(Self::FORMAT).cloned().unwrap_or_else(|| json!({ "type": "text" })) },
            "tool_choice": self.stored.get("tool_choice").cloned().unwrap_or_else(|| json!("auto")),
            "tools": self.stored.get("tools").cloned().unwrap_or_else(|| json!([])),
            "top_p": stored_member("top_p"),
            "truncation": "disabled",
            "usage": is_done.then(|| usage(&state.usage)),
            "completed_at": is_done.then_some(state.at / 1000),
            "metadata": metadata,
        })
    }
}

/// The state of a response.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseState {
    /// `None` while the response is in progress.
    pub(super) status: Option<&'static str>,
    pub(super) output: Vec<Value>,
    pub(super) usage: Usage,
    pub(super) failure: Option<String>,
    /// This server's own code of the failure.
    pub(super) code: Option<String>,
    /// The time of the last observation.
    pub(super) at: Millis,
}

impl ResponseState {
    pub(super) fn is_finished(&self) -> bool {
        self.status.is_some()
    }

    /// The index of the last item.
    pub(super) fn index(&self) -> usize {
        self.output.len().saturating_sub(1)
    }

    pub(super) fn next_index(&self) -> usize {
        self.output.len()
    }

    pub(super) fn last_id(&self) -> String {
        self.output.last().and_then(|item| item["id"].as_str()).unwrap_or_default().to_owned()
    }
}

/// Some clients only read an error that has all members of an error response.
fn error(message: &str) -> Value {
    json!({ "type": "server_error", "code": "server_error", "message": message, "param": null })
}

fn usage(used: &Usage) -> Value {
    json!({
        "input_tokens": used.input_tokens,
        "input_tokens_details": { "cached_tokens": used.cached_input_tokens, "cache_write_tokens": 0 },
        "output_tokens": used.output_tokens,
        "output_tokens_details": { "reasoning_tokens": used.thinking_tokens },
        "total_tokens": used.input_tokens + used.output_tokens,
    })
}
