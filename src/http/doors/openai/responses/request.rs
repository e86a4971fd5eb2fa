//! The request of a response: which members are used, refused or ignored.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::object::{ResponseHead, ResponseId};
use crate::domain::ids::{SuspensionId, ThreadId};
use crate::domain::prompt::SystemPrompt;
use crate::domain::settings::CallOptions;
use crate::domain::tool::ClientTool;
use crate::domain::which_thread::Said;
use crate::http::doors::openai::content;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::run_request::{Approval, Approvals};
use crate::http::doors::openai::tools;

/// The body. Members that are not listed here are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sent {
    pub(super) model: String,
    input: Value,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    conversation: Option<Value>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    text: Option<Value>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    safety_identifier: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A validated request.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseRequest {
    pub(super) input: ResponseInput,
    pub(super) previous: Option<ResponseId>,
    pub(super) conversation: Option<ThreadId>,
    pub(super) is_streamed: bool,
    pub(super) is_background: bool,
    pub(super) user: Option<String>,
    pub(super) options: CallOptions,
    /// The members of the request that every read of the response repeats.
    pub(super) stored: Map<String, Value>,
}

/// The parsed input.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResponseInput {
    /// The user's text after the last item of the agent that is sent back.
    pub(super) text: String,
    /// The results of the client's functions, by suspension id, also those of earlier turns. See `answered`.
    pub(super) results: HashMap<String, String>,
    pub(super) approvals: Approvals,
    /// The ids of this server's items that are sent back. They identify the conversation.
    pub(super) ours: Vec<String>,
    /// Those of them that are followed only by the new input.
    pub(super) shown_last: Vec<String>,
    /// The requested approvals among these, by suspension id.
    pub(super) asked_last: Vec<SuspensionId>,
    /// Something of the user follows the last item of the agent.
    has_news: bool,
    /// How many results and approvals follow the last item of the agent.
    pub(super) answered: usize,
    /// All messages, of the user and of the agent.
    pub(super) said: Vec<Said>,
    /// The system's messages, which are no part of the conversation.
    pub(super) system: Vec<String>,
}

/// The label under which this server's own tools are shown.
const LABEL: &str = "pes";

impl Sent {
    pub(super) fn read(self, named: &NamedModel) -> Result<ResponseRequest, OpenAiError> {
        let (client_tools, takes_approvals) = self.declared()?;
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        let answer_schema = tools::answer_schema("text.format", format, "/schema")?;
        let mut params = self.others.clone();
        if let Some(effort) = params.get("reasoning").and_then(|reasoning| reasoning.get("effort")).cloned() {
            params.insert("reasoning_effort".to_owned(), effort);
        }
        let (llm_params, synthesis_params) = tools::params(&params);
        let input = read_input(&self.input)?;
        let instructions = self.instructions.iter().filter(|text| !text.trim().is_empty());
        let system: Vec<&str> = instructions.chain(&input.system).map(String::as_str).collect();
        let options = CallOptions {
            provider_config: named.provider.clone(),
            llm_params: Some(llm_params),
            synthesis_params: Some(synthesis_params),
            answer_schema,
            system_prompt: (!system.is_empty()).then(|| SystemPrompt::Text(system.join("\n\n"))),
            client_tools,
            ..CallOptions::default()
        };
        let previous =
            self.previous_response_id.as_deref().map(|id| ResponseId::parse(id).ok_or_else(|| no_previous(id)));
        let conversation = self.conversation.as_ref().map_or(Ok(None), named_conversation)?;
        if conversation.is_some() && previous.is_some() {
            let message = "A request continues a conversation or a response, not both.";
            return Err(OpenAiError::bad_request("invalid", "previous_response_id", message));
        }
        let is_background = self.background.unwrap_or(false);
        let mut stored = Map::from_iter([
            ("model".to_owned(), json!(self.model)),
            ("instructions".to_owned(), json!(self.instructions)),
            ("previous_response_id".to_owned(), json!(self.previous_response_id)),
            ("metadata".to_owned(), json!(self.metadata.clone().unwrap_or_default())),
            ("tools".to_owned(), json!(self.tools.clone().unwrap_or_default())),
            ("background".to_owned(), json!(is_background)),
            ("approvals".to_owned(), json!(takes_approvals)),
        ]);
        if options.answer_schema.is_some() {
            stored.insert(ResponseHead::FORMAT.to_owned(), json!(format));
        }
        stored.extend(conversation.iter().map(|id| (ResponseHead::CONVERSATION.to_owned(), json!(id))));
        stored.extend(self.tool_choice.clone().map(|choice| ("tool_choice".to_owned(), choice)));
        for name in ["temperature", "top_p", "max_output_tokens", "reasoning"] {
            stored.extend(self.others.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        Ok(ResponseRequest {
            input,
            previous: previous.transpose()?,
            conversation,
            is_streamed: self.stream.unwrap_or(false),
            is_background,
            user: self.user.or(self.safety_identifier),
            options,
            stored,
        })
    }

    /// The client's functions, and whether it can show approvals.
    fn declared(&self) -> Result<(Vec<ClientTool>, bool), OpenAiError> {
        let (mut functions, mut takes_approvals) = (Vec::new(), false);
        let is_offered = tools::may_call_tools("tool_choice", self.tool_choice.as_ref())?;
        for (at, tool) in self.tools.iter().flatten().enumerate() {
            match tool["type"].as_str().unwrap_or_default() {
                "function" if is_offered => functions.push(tools::client_tool(&format!("tools[{at}]"), tool)?),
                ResponseHead::NAMESPACE if is_offered => {
                    for (inner, tool) in tool["tools"].as_array().into_iter().flatten().enumerate() {
                        functions.push(function_of_namespace(&format!("tools[{at}].tools[{inner}]"), tool)?);
                    }
                }
                "function" | ResponseHead::NAMESPACE => {}
                "mcp" if tool["server_label"] == LABEL => takes_approvals = true,
                "mcp" => {
                    let message = format!(
                        "MCP servers are tools of this server's operator. Only the label `{LABEL}` is taken: it asks for approvals."
                    );
                    return Err(OpenAiError::unsupported(format!("tools[{at}].server_label"), message));
                }
                other => return Err(unknown_tool(format!("tools[{at}]"), other)),
            }
        }
        Ok((functions, takes_approvals))
    }
}

fn function_of_namespace(place: &str, tool: &Value) -> Result<ClientTool, OpenAiError> {
    match tool["type"].as_str().unwrap_or_default() {
        "function" => tools::client_tool(place, tool),
        other => Err(unknown_tool(place.to_owned(), other)),
    }
}

fn unknown_tool(place: String, kind: &str) -> OpenAiError {
    OpenAiError::unsupported(place, format!("Tools of the type `{kind}` are not known; declare functions."))
}

pub(super) fn no_previous(id: &str) -> OpenAiError {
    let message = format!("There is no response `{id}`.");
    OpenAiError::bad_request("previous_response_not_found", "previous_response_id", message)
}

/// The conversation has gone on after this response, and up to there it is too long for a copy.
pub(super) fn too_long(id: &ResponseId) -> OpenAiError {
    let message = format!(
        "The conversation has gone on after the response `{id}`, and up to there it has more than 64 MiB, which is too much \
         to go on beside it. Continue its last response, or begin a new conversation."
    );
    OpenAiError::bad_request("invalid", "previous_response_id", message)
}

/// The thread that is named as the conversation. `None` if the name is empty.
fn named_conversation(value: &Value) -> Result<Option<ThreadId>, OpenAiError> {
    let Some(id) = value.as_str().or_else(|| value["id"].as_str()).map(str::trim) else {
        return Err(OpenAiError::bad_request("invalid", "conversation", "It must be an id, or an object with an id."));
    };
    Ok((!id.is_empty()).then(|| id.into()))
}

fn read_input(input: &Value) -> Result<ResponseInput, OpenAiError> {
    let items = match input {
        Value::String(text) => {
            return Ok(ResponseInput {
                text: text.clone(),
                said: vec![Said::User(text.clone())],
                ..ResponseInput::default()
            });
        }
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(OpenAiError::bad_request("invalid", "input", "It must be a text or a list of items."));
        }
    };
    let mut read = ResponseInput::default();
    for (at, item) in items.iter().enumerate() {
        read.item(&format!("input[{at}]"), item)?;
    }
    Ok(read)
}

impl ResponseInput {
    fn item(&mut self, place: &str, item: &Value) -> Result<(), OpenAiError> {
        let text = |name: &str| item[name].as_str().map(str::to_owned);
        let missing = |name: &str| OpenAiError::bad_request("invalid", format!("{place}.{name}"), "It is missing.");
        match item["type"].as_str().unwrap_or("message") {
            "message" => self.message(place, item)?,
            "function_call_output" => {
                let call = questions::suspension_id(&text("call_id").ok_or_else(|| missing("call_id"))?);
                let output = content::text(&format!("{place}.output"), item.get("output"))?;
                self.said.push(Said::ToolResult { call: call.clone(), text: output.clone() });
                self.has_news = true;
                self.answered += 1;
                self.results.insert(call, output);
            }
            "mcp_approval_response" => {
                let id = text("approval_request_id").ok_or_else(|| missing("approval_request_id"))?;
                let approved = item["approve"].as_bool().ok_or_else(|| missing("approve"))?;
                self.approvals.insert(id.into(), Approval { approved, reason: text("reason") });
                self.has_news = true;
                self.answered += 1;
            }
            "item_reference"
            | "function_call"
            | "mcp_call"
            | "mcp_approval_request"
            | "reasoning"
            | "mcp_list_tools" => {
                let call = text("call_id").as_deref().map(questions::suspension_id);
                if let Some(call) = call.clone() {
                    self.said.push(Said::Assistant { text: String::new(), calls: vec![call] });
                }
                self.agent_item(call.or_else(|| text("id")));
                if item["type"] == "mcp_approval_request" {
                    self.asked_last.extend(text("id").map(SuspensionId::from));
                }
            }
            other => {
                let message = format!("Items of the type `{other}` are not taken.");
                return Err(OpenAiError::bad_request("unsupported_content", place, message));
            }
        }
        Ok(())
    }

    fn message(&mut self, place: &str, item: &Value) -> Result<(), OpenAiError> {
        let text = content::text(&format!("{place}.content"), item.get("content"))?;
        match item["role"].as_str().unwrap_or_default() {
            "user" => {
                self.text = if self.text.is_empty() { text.clone() } else { format!("{}\n\n{text}", self.text) };
                self.said.push(Said::User(text));
                self.has_news = true;
            }
            "assistant" => {
                self.said.push(Said::Assistant { text, calls: Vec::new() });
                self.agent_item(item["id"].as_str().map(str::to_owned));
            }
            "system" | "developer" if text.trim().is_empty() => {}
            "system" | "developer" => self.system.push(text),
            other => {
                let message = format!("There is no role `{other}`; known: system, developer, user and assistant.");
                return Err(OpenAiError::bad_request("invalid", format!("{place}.role"), message));
            }
        }
        Ok(())
    }

    /// Handles an item of the agent: the user's text before it is answered already.
    fn agent_item(&mut self, id: Option<String>) {
        self.text.clear();
        self.answered = 0;
        if std::mem::take(&mut self.has_news) {
            self.shown_last.clear();
            self.asked_last.clear();
        }
        self.ours.extend(id.clone());
        self.shown_last.extend(id);
    }
}
