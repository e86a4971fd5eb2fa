//! Providers with the Chat Completions API, and the differences between their dialects. A new provider is a row here;
//! its key is read from `<NAME>_API_KEY`, another base URL from `<NAME>_BASE_URL`.

/// One vendor's dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The provider's name in configurations.
    pub(crate) name: &'static str,
    pub(crate) base_url: &'static str,
    /// Whether that endpoint requires a key.
    pub(crate) needs_key: bool,
    /// The name of the parameter that limits a reply's length.
    pub(crate) max_tokens: &'static str,
    pub(crate) seed: &'static str,
    pub(crate) effort: Effort,
    pub(crate) schema: Schema,
    /// Whether the usage must be requested, and can be.
    pub(crate) has_usage_option: bool,
    pub(crate) reasoning: Reasoning,
    /// The server, or a prompt template on it, requires that user and assistant alternate.
    pub(crate) takes_turns: bool,
    /// Ids of tool calls must be nine letters or digits.
    pub(crate) has_short_ids: bool,
    /// `llmParams` that it rejects.
    pub(crate) refuses: &'static [&'static str],
}

/// How structured output is requested. The prompt also asks for it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// `response_format: json_schema`.
    Whole,
    /// `response_format: json_object`: JSON without a schema.
    Object,
    /// Not supported by every model, or not in a stream.
    None,
}

/// Where the reasoning effort is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// `reasoning_effort`.
    Plain,
    /// `reasoning: {effort}`.
    Nested,
}

/// What must be sent back of the model's reasoning within a tool loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reasoning {
    #[default]
    Nothing,
    /// `reasoning_content`, unchanged.
    Content,
    /// `reasoning_details`, merged from their fragments.
    Details,
}

/// OpenAI's model families that reject a schema, at every provider.
const FORMLESS: [&str; 6] = ["chatgpt-4o", "gpt-3.5", "gpt-4-", "gpt-4o-2024-05-13", "o1-mini", "o1-preview"];

/// A model's name without the path of a router and the mark of a tuned model.
pub(super) fn plain_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("ft:").unwrap_or(name)
}

impl Dialect {
    /// How the format of this model's replies can be enforced.
    pub(crate) fn schema_of(&self, model: &str) -> Schema {
        let name = plain_name(model);
        let is_formless = name == "gpt-4" || FORMLESS.iter().any(|family| name.starts_with(family));
        if is_formless { Schema::None } else { self.schema }
    }
}

pub(crate) const OPENAI: Dialect = Dialect {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    needs_key: true,
    max_tokens: "max_completion_tokens",
    seed: "seed",
    effort: Effort::Plain,
    schema: Schema::Whole,
    has_usage_option: true,
    reasoning: Reasoning::Nothing,
    takes_turns: false,
    has_short_ids: false,
    refuses: &[],
};

/// Any other endpoint that is configured by URL: only what all servers support.
pub(crate) const ANY: Dialect = Dialect {
    name: "any",
    base_url: "",
    needs_key: false,
    max_tokens: "max_tokens",
    schema: Schema::None,
    takes_turns: true,
    ..OPENAI
};

/// A local server that turns schemas into grammars.
const LOCAL: Dialect = Dialect { schema: Schema::Whole, ..ANY };

pub(crate) const DIALECTS: &[Dialect] = &[
    OPENAI,
    ANY,
    Dialect {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        max_tokens: "max_tokens",
        effort: Effort::Nested,
        reasoning: Reasoning::Details,
        ..OPENAI
    },
    Dialect { name: "groq", base_url: "https://api.groq.com/openai/v1", schema: Schema::None, ..OPENAI },
    Dialect {
        name: "deepseek",
        base_url: "https://api.deepseek.com",
        max_tokens: "max_tokens",
        schema: Schema::Object,
        reasoning: Reasoning::Content,
        refuses: &["seed"],
        ..OPENAI
    },
    Dialect {
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        max_tokens: "max_tokens",
        seed: "random_seed",
        has_usage_option: false,
        takes_turns: true,
        has_short_ids: true,
        refuses: &["reasoningEffort"],
        ..OPENAI
    },
    Dialect { name: "xai", base_url: "https://api.x.ai/v1", ..OPENAI },
    Dialect { name: "together", base_url: "https://api.together.xyz/v1", max_tokens: "max_tokens", ..OPENAI },
    Dialect { name: "vllm", base_url: "http://localhost:8000/v1", ..LOCAL },
    Dialect { name: "lmstudio", base_url: "http://localhost:1234/v1", ..LOCAL },
    Dialect { name: "llamacpp", base_url: "http://localhost:8080/v1", ..LOCAL },
    Dialect { name: "ollama-v1", base_url: "http://localhost:11434/v1", ..LOCAL },
];
