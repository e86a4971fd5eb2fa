//! The form of a question to a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a person fills in, and how a client shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    /// `true` or `false`.
    Boolean,
    /// A text of any length.
    Text,
    /// One of `options`.
    Select,
    /// Any number of `options`, as a list.
    Multiselect,
    /// A JSON number.
    Number,
    /// A day, as `2026-11-21`.
    Date,
    /// A time in RFC 3339.
    Datetime,
    /// The URL of a file, or an object that describes it; the file itself is not sent.
    File,
    /// `true` or `false`, shown as a yes or a no to what was asked.
    Confirm,
    /// A value that fits `customSchema`.
    Custom,
}

/// The form of an answer; a client can render it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackSchema {
    /// Which values the answer may have.
    pub input_type: InputType,
    /// What the person reads above the form.
    pub prompt: String,
    /// What can be chosen, for `select` and `multiselect`; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<SelectOption>,
    /// Whether an approval may have `modifiedArgs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_modify_args: bool,
    /// JSON Schema of `value`, for `custom`; for `text`, of the objects that are taken, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_schema: Option<Value>,
}

impl FeedbackSchema {
    /// A form without options in which no arguments can be edited.
    pub fn new(input_type: InputType, prompt: impl Into<String>) -> Self {
        Self { input_type, prompt: prompt.into(), options: Vec::new(), allow_modify_args: false, custom_schema: None }
    }
}

/// A value that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SelectOption {
    /// What the answer has.
    pub value: Value,
    /// What the person reads.
    pub label: String,
}
