//! The form of a question to a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    Boolean,
    Text,
    Select,
    Multiselect,
    Number,
    Date,
    Datetime,
    File,
    Confirm,
    Custom,
}

/// The form of an answer; a client can render it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackSchema {
    pub input_type: InputType,
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<SelectOption>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_modify_args: bool,
    /// JSON Schema of `value`, for `custom`; for `text`, of the objects that are taken, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_schema: Option<Value>,
}

impl FeedbackSchema {
    pub fn new(input_type: InputType, prompt: impl Into<String>) -> Self {
        Self { input_type, prompt: prompt.into(), options: Vec::new(), allow_modify_args: false, custom_schema: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SelectOption {
    pub value: Value,
    pub label: String,
}
