//! `RunAgentInput`: the request of an AG-UI client that starts a run of its own, in any version.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::interrupt::takes_result;
use crate::domain::fault::Fault;
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{CallId, ThreadId};
use crate::domain::message::HistoryRole;
use crate::domain::prompt::SystemPrompt;
use crate::domain::settings::CallOptions;
use crate::domain::tool::ClientTool;
use crate::http::app_state::AppState;
use crate::http::ids::new_thread_id;

/// The body of a request. Members that are not listed here belong to the client and are ignored. Names in snake case are
/// taken as well, as by the types of AG-UI for Python.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAgentInput {
    #[serde(alias = "thread_id")]
    thread_id: String,
    #[serde(alias = "run_id")]
    run_id: String,
    #[serde(alias = "protocol_version")]
    protocol_version: Option<String>,
    messages: Vec<Value>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    context: Option<Vec<Context>>,
    #[serde(default)]
    resume: Option<Vec<Resume>>,
    #[serde(default, alias = "forwarded_props")]
    forwarded_props: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Context {
    description: String,
    value: String,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resume {
    #[serde(alias = "interrupt_id")]
    pub(super) interrupt_id: String,
    pub(super) status: ResumeStatus,
    #[serde(default)]
    pub(super) payload: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResumeStatus {
    Resolved,
    Cancelled,
}

/// The client's ids of its run, the protocol version, and which results the client has.
#[derive(Clone, Debug)]
pub(super) struct ClientRun {
    pub(super) thread: ThreadId,
    pub(super) id: String,
    /// The client speaks version 1.0 or newer.
    pub(super) speaks_v1: bool,
    /// The ids of the calls whose results are messages of the client.
    pub(super) results: HashSet<String>,
}

impl ClientRun {
    /// The call that the question is about, if the question takes its result and the client sent that.
    pub(super) fn answered_call(&self, question: &AskedQuestion) -> Option<CallId> {
        let call = question.call_id.as_ref().filter(|_| takes_result(question.kind))?;
        self.results.contains(call.as_str()).then(|| call.clone())
    }
}

/// A validated request.
#[derive(Debug)]
pub(super) struct AguiRequest {
    pub(super) run: ClientRun,
    pub(super) resume: Vec<Resume>,
    /// Results of calls that the client made, sent after the agent's last message or among its last calls.
    pub(super) results: Vec<ToolMessage>,
    /// The newest message of the user, if no message of the agent follows it.
    pub(super) query: Option<AguiQuery>,
    pub(super) options: CallOptions,
}

#[derive(Clone, Debug)]
pub(super) struct AguiQuery {
    pub(super) text: String,
    pub(super) message_id: String,
    /// The messages before it that have a text, oldest first.
    pub(super) earlier: Vec<EarlierMessage>,
}

impl AguiQuery {
    /// Stores the client's id with the message.
    pub(super) fn metadata(&self) -> Map<String, Value> {
        Map::from_iter([(METADATA_KEY.to_owned(), json!({ "id": self.message_id }))])
    }
}

/// The metadata member that holds the client's id of a message.
pub(super) const METADATA_KEY: &str = "agui";

/// A message of the conversation as the client has it.
#[derive(Clone, Debug)]
pub(super) struct EarlierMessage {
    pub(super) role: HistoryRole,
    pub(super) text: String,
    pub(super) message_id: String,
}

#[derive(Clone, Debug)]
pub(super) struct ToolMessage {
    pub(super) call: String,
    /// The JSON Pointer of its content in the request.
    pub(super) pointer: String,
    pub(super) content: Value,
    pub(super) error: Option<String>,
}

/// The client's run, which is all that `/agui/connect` uses of a request.
pub(super) fn client(app: &AppState, input: &RunAgentInput) -> Result<ClientRun, Fault> {
    let longest = app.config.limits.id_length;
    let thread = new_thread_id(&input.thread_id, longest, "/threadId")?;
    if !(1..=longest).contains(&input.run_id.len()) || input.run_id.contains(char::is_control) {
        return Err(Fault::invalid("/runId", format!("has 1 to {longest} bytes and no control characters")));
    }
    let speaks_v1 = input.protocol_version.as_deref().is_some_and(|version| !version.starts_with("0."));
    let results = input.messages.iter().filter(|message| message["role"] == "tool");
    let results = results.filter_map(|message| call_id(message).map(str::to_owned)).collect();
    Ok(ClientRun { thread, id: input.run_id.clone(), speaks_v1, results })
}

pub(super) fn read(app: &AppState, input: RunAgentInput) -> Result<AguiRequest, Fault> {
    let run = client(app, &input)?;
    let (mut results, mut query) = (Vec::new(), None);
    for (at, message) in input.messages.iter().enumerate().rev() {
        let place = format!("/messages/{at}");
        match message["role"].as_str() {
            Some("tool") => results.push(result(message, &place)?),
            Some("user") if query.is_none() => query = Some(user_query(message, &place, &input.messages[..at])?),
            Some("assistant") => {
                results.extend(results_among_calls(&input.messages[..=at]));
                break;
            }
            // Only results before the user's message are new, too.
            Some(_) | None if query.is_some() => {}
            // Messages that clients keep beside the conversation.
            Some("activity" | "reasoning" | "system" | "developer") => {}
            Some(_) | None => return Err(Fault::invalid(&format!("{place}/role"), "is no role")),
        }
    }
    let mut options = options(input.forwarded_props.as_ref())?;
    options.client_tools.extend(input.tools.into_iter().flatten().map(|tool| ClientTool {
        name: tool.name,
        description: tool.description,
        input_schema: tool.parameters.unwrap_or_else(|| json!({ "type": "object" })),
    }));
    let context: Vec<String> =
        input.context.iter().flatten().map(|one| format!("{}: {}", one.description, one.value)).collect();
    let mut system = system_texts(&input.messages);
    system.extend((!context.is_empty()).then(|| context.join("\n")));
    if !system.is_empty() && options.system_prompt.is_none() {
        // As plain text: variables would be substituted in a prompt layer.
        options.system_prompt = Some(SystemPrompt::Text(system.join("\n\n")));
    }
    Ok(AguiRequest { run, resume: input.resume.unwrap_or_default(), results, query, options })
}

/// `forwardedProps.pes` holds the options of the call. Other members of `forwardedProps` belong to others, but for
/// `toolChoice`, by which CopilotKit forces a call for its suggestions. It takes the arguments and sends no result, so
/// such a run would carry out a whole plan and then wait for ever.
fn options(forwarded: Option<&Value>) -> Result<CallOptions, Fault> {
    let Some(props) = forwarded else { return Ok(CallOptions::default()) };
    if props["toolChoice"].is_object() || props["toolChoice"] == "required" {
        return Err(Fault::invalid("/forwardedProps/toolChoice", "forces a call, but the agent decides what it calls"));
    }
    let Some(own) = props.get("pes") else { return Ok(CallOptions::default()) };
    crate::http::json::typed::<CallOptions>(own.clone()).map_err(|fault| fault.below("/forwardedProps/pes"))
}

/// The messages of the system and of the developer.
fn system_texts(messages: &[Value]) -> Vec<String> {
    let is_of_system = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    messages.iter().filter(is_of_system).filter_map(text_of).collect()
}

/// The text parts of a message. `None` if they say nothing.
fn text_of(message: &Value) -> Option<String> {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

fn earlier_message(message: &Value) -> Option<EarlierMessage> {
    let role = match message["role"].as_str() {
        Some("user") => HistoryRole::User,
        Some("assistant") => HistoryRole::Assistant,
        Some(_) | None => return None,
    };
    let message_id = message["id"].as_str().unwrap_or_default().to_owned();
    Some(EarlierMessage { role, text: text_of(message)?, message_id })
}

fn user_query(message: &Value, place: &str, before: &[Value]) -> Result<AguiQuery, Fault> {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Option<Vec<&str>> =
                parts.iter().map(|part| part["text"].as_str().filter(|_| part["type"] == "text")).collect();
            texts.ok_or_else(|| Fault::invalid(&format!("{place}/content"), "has parts that are not text"))?.join("\n")
        }
        _ => return Err(Fault::invalid(&format!("{place}/content"), "must be text")),
    };
    if text.trim().is_empty() {
        return Err(Fault::invalid(&format!("{place}/content"), "must say something"));
    }
    let message_id = message["id"].as_str().unwrap_or_default().to_owned();
    Ok(AguiQuery { text, message_id, earlier: before.iter().filter_map(earlier_message).collect() })
}

/// The id of the call whose result the message is.
fn call_id(message: &Value) -> Option<&str> {
    message["toolCallId"].as_str().or_else(|| message["tool_call_id"].as_str())
}

/// The results among the newest calls of the agent, newest first. CopilotKit and assistant-ui put a result behind its
/// call, so the agent's next call may follow it.
fn results_among_calls(messages: &[Value]) -> impl Iterator<Item = ToolMessage> {
    let has_calls = |message: &Value| {
        let calls = message["toolCalls"].as_array().or_else(|| message["tool_calls"].as_array());
        calls.is_some_and(|calls| !calls.is_empty())
    };
    let newest = messages.iter().enumerate().rev().take_while(move |(_, message)| match message["role"].as_str() {
        Some("assistant") => has_calls(message),
        Some(role) => role != "user",
        None => false,
    });
    let results = newest.filter(|(_, message)| message["role"] == "tool");
    results.filter_map(|(at, message)| result(message, &format!("/messages/{at}")).ok())
}

fn result(message: &Value, place: &str) -> Result<ToolMessage, Fault> {
    let call =
        call_id(message).ok_or_else(|| Fault::invalid(&format!("{place}/toolCallId"), "must be text"))?.to_owned();
    let (place, content) = (format!("{place}/content"), message["content"].clone());
    Ok(ToolMessage { call, pointer: place, content, error: message["error"].as_str().map(str::to_owned) })
}
