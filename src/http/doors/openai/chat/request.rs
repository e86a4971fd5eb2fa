//! The request of a chat completion: which members are used, refused or ignored.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::domain::prompt::SystemPrompt;
use crate::domain::settings::CallOptions;
use crate::domain::which_thread::Said;
use crate::http::doors::openai::content;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::tools;

/// The body. Members that are not listed here belong to the front end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sent {
    pub(super) model: String,
    messages: Vec<SentMessage>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    safety_identifier: Option<String>,
    #[serde(default)]
    pub(super) metadata: Option<Map<String, Value>>,
    #[serde(default)]
    response_format: Option<Value>,
    /// All other members. Some of them are read.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
struct SentMessage {
    role: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
}

/// A validated request.
#[derive(Clone, Debug)]
pub(super) struct ChatRequest {
    /// The model's name as the client sent it.
    pub(super) model: String,
    pub(super) said: Vec<Said>,
    pub(super) is_streamed: bool,
    pub(super) with_usage: bool,
    pub(super) user: Option<String>,
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) options: CallOptions,
}

/// A member, and whether its value requests an unsupported feature.
type UnsupportedMember = (&'static str, fn(&Value) -> bool);

/// Members that would change the answer and that this server does not support, each with a test of whether the value
/// requests it.
const UNSUPPORTED: [UnsupportedMember; 6] = [
    ("n", |value| value.as_u64() != Some(1)),
    ("logprobs", |value| value != &json!(false)),
    ("top_logprobs", |value| value != &json!(0)),
    ("audio", |_| true),
    ("modalities", |value| value.as_array().is_none_or(|kinds| kinds.iter().any(|kind| kind != "text"))),
    ("functions", |_| true),
];

impl Sent {
    pub(super) fn read(self, named: &NamedModel) -> Result<ChatRequest, OpenAiError> {
        for (name, asks) in UNSUPPORTED {
            if self.others.get(name).is_some_and(|value| !value.is_null() && asks(value)) {
                return Err(OpenAiError::unsupported(name, format!("`{name}` is not supported here.")));
            }
        }
        let (said, system) = read_messages(&self.messages)?;
        let (llm_params, synthesis_params) = tools::params(&self.others);
        let options = CallOptions {
            provider_config: named.provider.clone(),
            llm_params: Some(llm_params),
            synthesis_params: Some(synthesis_params),
            answer_schema: tools::answer_schema(
                "response_format",
                self.response_format.as_ref(),
                "/json_schema/schema",
            )?,
            system_prompt: (!system.is_empty()).then(|| SystemPrompt::Text(system.join("\n\n"))),
            client_tools: if tools::may_call_tools("tool_choice", self.tool_choice.as_ref())? {
                tools::functions(self.tools.as_deref().unwrap_or_default())?
            } else {
                Vec::new()
            },
            ..CallOptions::default()
        };
        let is_streamed = self.stream.unwrap_or(false);
        Ok(ChatRequest {
            model: self.model,
            said,
            is_streamed,
            with_usage: self.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            user: self.user.or(self.safety_identifier),
            metadata: self.metadata,
            options,
        })
    }
}

/// The conversation, and separately the system's messages.
fn read_messages(sent: &[SentMessage]) -> Result<(Vec<Said>, Vec<String>), OpenAiError> {
    let (mut said, mut system) = (Vec::new(), Vec::new());
    for (at, message) in sent.iter().enumerate() {
        let place = format!("messages[{at}]");
        let text = content::text(&format!("{place}.content"), message.content.as_ref())?;
        match message.role.as_str() {
            "system" | "developer" if text.trim().is_empty() => {}
            "system" | "developer" => system.push(text),
            "user" => said.push(Said::User(text)),
            "assistant" => {
                let calls = message.tool_calls.iter().flatten();
                let calls = calls.filter_map(|call| call["id"].as_str()).map(questions::suspension_id).collect();
                said.push(Said::Assistant { text, calls });
            }
            "tool" => {
                let missing =
                    || OpenAiError::bad_request("invalid", format!("{place}.tool_call_id"), "It names no call.");
                let call = message.tool_call_id.as_deref().ok_or_else(missing)?;
                said.push(Said::ToolResult { call: questions::suspension_id(call), text });
            }
            other => {
                let known = "system, developer, user, assistant and tool";
                let message = format!("There is no role `{other}`; known: {known}.");
                return Err(OpenAiError::bad_request("invalid", format!("{place}.role"), message));
            }
        }
    }
    Ok((said, system))
}
