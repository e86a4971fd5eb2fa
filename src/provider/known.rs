//! Known limits of models by name: context window and output length. A new family is a row here; the operator's
//! `models.facts` take precedence.

use std::collections::{BTreeMap, BTreeSet};

use super::ModelFacts;
use crate::config;

/// The prefix of a family's names, its context window, and its maximum output, in tokens. The longest matching prefix
/// is used. Zero = the vendor does not publish it.
type Row = (&'static str, u64, u64);

const FAMILIES: &[Row] = &[
    ("chatgpt-4o", 128_000, 16_384),
    ("claude-", 200_000, 64_000),
    ("claude-3-5-haiku", 200_000, 8_192),
    ("claude-3-5-sonnet", 200_000, 8_192),
    ("claude-3-haiku", 200_000, 4_096),
    ("claude-3-opus", 200_000, 4_096),
    ("claude-opus-4", 200_000, 32_000),
    ("claude-opus-4-5", 200_000, 64_000),
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-opus-4-7", 1_000_000, 128_000),
    ("claude-opus-4-8", 1_000_000, 128_000),
    ("claude-sonnet-4-6", 1_000_000, 128_000),
    ("codestral", 256_000, 0),
    ("command-a", 256_000, 8_000),
    ("command-r", 128_000, 4_000),
    ("deepseek-chat", 128_000, 8_192),
    ("deepseek-r1", 128_000, 32_768),
    ("deepseek-reasoner", 128_000, 64_000),
    ("deepseek-v3", 128_000, 8_192),
    ("devstral", 128_000, 0),
    ("gemini-1.5-flash", 1_048_576, 8_192),
    ("gemini-1.5-pro", 2_097_152, 8_192),
    ("gemini-2.0", 1_048_576, 8_192),
    ("gemini-2.5", 1_048_576, 65_536),
    ("gemini-3", 1_048_576, 65_536),
    ("gemma-3", 131_072, 8_192),
    ("gemma3", 131_072, 8_192),
    ("glm-4.5", 131_072, 98_304),
    ("glm-4.6", 200_000, 131_072),
    ("gpt-3.5-turbo", 16_385, 4_096),
    ("gpt-4", 8_192, 8_192),
    ("gpt-4-turbo", 128_000, 4_096),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("gpt-5", 400_000, 128_000),
    ("gpt-5-chat", 128_000, 16_384),
    ("gpt-oss", 131_072, 0),
    ("grok-3", 131_072, 0),
    ("grok-4", 256_000, 0),
    ("grok-4-fast", 2_000_000, 0),
    ("grok-code-fast", 256_000, 0),
    ("kimi-k2", 131_072, 0),
    ("llama-3", 8_192, 0),
    ("llama-3.1", 131_072, 0),
    ("llama-3.2", 131_072, 0),
    ("llama-3.3", 131_072, 0),
    ("llama3", 8_192, 0),
    ("llama3.1", 131_072, 0),
    ("llama3.2", 131_072, 0),
    ("llama3.3", 131_072, 0),
    ("magistral", 128_000, 0),
    ("ministral", 128_000, 0),
    ("mistral-large", 128_000, 0),
    ("mistral-medium", 128_000, 0),
    ("mistral-nemo", 128_000, 0),
    ("mistral-small", 128_000, 0),
    ("o1", 200_000, 100_000),
    ("o1-mini", 128_000, 65_536),
    ("o3", 200_000, 100_000),
    ("o4-mini", 200_000, 100_000),
    ("phi-4", 16_384, 0),
    ("phi4", 16_384, 0),
    ("qwen2.5", 32_768, 8_192),
    ("qwen3", 40_960, 0),
];

/// The facts of models: from the configuration, else derived from the name.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// By `provider:model`.
    configured: BTreeMap<String, config::Facts>,
    /// Providers that use at most `num_ctx` tokens, whatever the model supports.
    num_ctx_providers: BTreeSet<String>,
    num_ctx: u64,
    /// The context window of unknown models.
    default_window: u64,
}

impl KnownFacts {
    pub(super) fn new(config: &config::Models) -> Self {
        let by_dialect = config.providers.iter().filter(|(_, provider)| provider.dialect.as_deref() == Some("ollama"));
        let num_ctx_providers = by_dialect.map(|(name, _)| name.clone()).chain(["ollama".to_owned()]).collect();
        Self {
            configured: config.facts.clone(),
            num_ctx_providers,
            num_ctx: config.ollama.num_ctx,
            default_window: config.context_window,
        }
    }

    pub(crate) fn facts(&self, provider: &str, model: &str) -> ModelFacts {
        let configured = self.configured.get(&format!("{provider}:{model}")).copied().unwrap_or_default();
        let known = facts(model);
        let window = configured.context_window.or(known.context_window);
        let window = if self.num_ctx_providers.contains(provider) {
            window.map_or(self.num_ctx, |window| window.min(self.num_ctx))
        } else {
            window.unwrap_or(self.default_window)
        };
        ModelFacts { context_window: Some(window), max_output: configured.max_output.or(known.max_output) }
    }
}

/// Only by the model's name: routers and local servers offer the same families under a vendor's path.
pub(super) fn facts(model: &str) -> ModelFacts {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let fitting = FAMILIES.iter().filter(|(family, ..)| name.starts_with(family));
    let published = |tokens: u64| (tokens > 0).then_some(tokens);
    fitting
        .max_by_key(|(family, ..)| family.len())
        .map(|&(_, window, output)| ModelFacts { context_window: published(window), max_output: published(output) })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_word_counts_and_ollama_keeps_no_more_than_it_was_told_to() {
        let mut config = config::Models::default();
        let configured = config::Facts { context_window: Some(1_000), max_output: None };
        config.facts.insert("openai:gpt-4o".into(), configured);
        let known = KnownFacts::new(&config);
        let facts = known.facts("openai", "gpt-4o");
        assert_eq!((facts.context_window, facts.max_output), (Some(1_000), Some(16_384)));
        assert_eq!(known.facts("groq", "gpt-4o").context_window, Some(128_000));
        assert_eq!(known.facts("ollama", "llama3.2").context_window, Some(config.ollama.num_ctx));
        assert_eq!(known.facts("ollama", "llama3").context_window, Some(8_192));
        assert_eq!(known.facts("mine", "nobody-knows").context_window, Some(config.context_window));
    }

    #[test]
    fn the_longest_beginning_counts_wherever_the_model_is_offered() {
        let table = [
            ("gpt-4.1-mini", Some(1_047_576), Some(32_768)),
            ("gpt-4-0613", Some(8_192), Some(8_192)),
            ("openai/gpt-4o-mini", Some(128_000), Some(16_384)),
            ("claude-opus-4-20250514", Some(200_000), Some(32_000)),
            ("claude-opus-4-5-20251101", Some(200_000), Some(64_000)),
            ("models/gemini-2.5-flash", Some(1_048_576), Some(65_536)),
            ("meta-llama/Llama-3.3-70B-Instruct-Turbo", Some(131_072), None),
            ("llama3:8b", Some(8_192), None),
            ("nobody-knows", None, None),
        ];
        for (model, context_window, max_output) in table {
            assert_eq!(facts(model), ModelFacts { context_window, max_output }, "{model}");
        }
    }
}
