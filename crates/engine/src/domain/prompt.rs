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
    /// What the model is told before everything else; the first message, and only that.
    System {
        /// One text, whose first line names the phase.
        content: String,
    },
    /// Words of the user, or of the engine in a user's place.
    User {
        /// One text; data in it stands between markers.
        content: String,
    },
    /// What the model wrote earlier.
    Assistant {
        /// May be empty if it only called tools.
        content: String,
        /// The calls that it made then; each has a result among the messages that follow.
        #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "toolCalls")]
        tool_calls: Vec<PromptCall>,
        /// Opaque blocks that a provider wants back in a tool loop (signed thinking, thought signatures).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Value>,
    },
    /// The result of one call.
    Tool {
        /// The id of that call in the message before.
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        /// The tool's name.
        name: String,
        /// The output or the error, as text.
        content: String,
    },
}

/// A tool call inside an assistant message, under the id that the provider will see again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptCall {
    /// The provider's own id, else ours.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What the model wrote, as JSON.
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

/// Where a layer of the system prompt goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum MergeStrategy {
    /// Behind the layers of server and thread that come before it.
    #[default]
    Append,
    /// Before them.
    Prepend,
}

/// One layer of the system prompt, as given in a config or a call: a plain string, or text with a tag and variables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected text, or an object with `content` or `tag`, `variables` and `strategy`")]
pub enum SystemPrompt {
    /// Appended as it is.
    Text(String),
    /// With a template, variables or another place.
    Layer(SystemPromptLayer),
}

/// A layer that is more than its text.
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
    /// What `{{name}}` stands for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Where the layer goes; `append` by default.
    #[serde(default)]
    pub strategy: MergeStrategy,
}

/// Who the agent is, and what it is told at each stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Persona {
    /// Told to the model in every phase; absent: none is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is told in some phases only.
    #[serde(default)]
    pub prompts: PersonaPrompts,
}

/// Instructions of a persona, by the phase that they are for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonaPrompts {
    /// For plans, refinements and repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<String>,
    /// For the steps of todo items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// For the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<String>,
}
