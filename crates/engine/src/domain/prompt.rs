//! Prompts: provider-neutral messages, and the layers that system prompts are composed of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::digest::canonical;
use super::hex;

/// One message of a model call. An assistant's tool calls always come before their results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum PromptMessage {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "toolCalls")]
        tool_calls: Vec<PromptCall>,
        /// Opaque blocks that a provider wants back in a tool loop (signed thinking, thought signatures).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Value>,
    },
    Tool {
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        name: String,
        content: String,
    },
}

/// A tool call inside an assistant message, under the id that the provider will see again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

/// The first half of the SHA-256 of a prompt, hex: the same for the same messages.
pub fn digest(messages: &[PromptMessage]) -> String {
    let mut hash = Sha256::new();
    let mut add = |texts: &[&str]| {
        for text in texts {
            // With its length, so that no two lists of texts are hashed as the same bytes.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    };
    for message in messages {
        match message {
            PromptMessage::System { content } => add(&["system", content]),
            PromptMessage::User { content } => add(&["user", content]),
            PromptMessage::Assistant { content, tool_calls, replay } => {
                add(&["assistant", content, &tool_calls.len().to_string()]);
                for call in tool_calls {
                    add(&[&call.id, &call.name, &canonical(&call.arguments)]);
                }
                add(&[&replay.as_ref().map(canonical).unwrap_or_default()]);
            }
            PromptMessage::Tool { tool_call_id, name, content } => {
                add(&["tool", tool_call_id, name, content]);
            }
        }
    }
    hex::of(&hash.finalize()[..16])
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum MergeStrategy {
    #[default]
    Append,
    Prepend,
}

/// One layer of the system prompt, as given in a config or a call: a plain string, or text with a tag and variables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected text, or an object with `content` or `tag`, `variables` and `strategy`")]
pub enum SystemPrompt {
    Text(String),
    Layer(SystemPromptLayer),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SystemPromptLayer {
    /// Free text; `{{name}}` is replaced from `variables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The name of a template in the server's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub strategy: MergeStrategy,
}

/// Who the agent is, and what it is told at each stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Persona {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub prompts: PersonaPrompts,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonaPrompts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<String>,
}
