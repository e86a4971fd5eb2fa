//! Who speaks Chat Completions, and how their dialects differ. A new one is a row here.

/// One vendor's dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The provider's name in configurations.
    pub(crate) name: &'static str,
    pub(crate) base_url: &'static str,
    /// What bounds a reply's length is called.
    pub(crate) max_tokens: &'static str,
    /// Whether `response_format: json_schema` is understood. The prompt asks for the same in words.
    pub(crate) has_schema: bool,
}

pub(crate) const OPENAI: Dialect = Dialect {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    max_tokens: "max_completion_tokens",
    has_schema: true,
};

/// Any other endpoint that is named by its URL: only what all of them understand.
pub(crate) const ANY: Dialect = Dialect { max_tokens: "max_tokens", has_schema: false, ..OPENAI };
