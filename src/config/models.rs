//! `[models]`

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::Gate;
use super::providers::Provider;
use super::secret::Key;
use super::section::{by_path, file_only, named, table};

section! {
    /// The models and their providers.
    Models {
        /// The models of runs that choose none, as "provider:model", in order of preference. Empty = the first provider
        /// that is configured: openai (a key or a base URL), anthropic (the same), gemini (the same), ollama (a host),
        /// a provider in `providers` with a model; else the demo.
        choice: Vec<ModelRef> = Vec::new(), named("PES_MODEL");
        /// The timeout for opening a connection, in milliseconds.
        connect_timeout_ms: u64 = 10_000, by_path();
        /// The timeout from the request to the reply's headers, in milliseconds.
        /// A local server may load the model first.
        header_timeout_ms: u64 = 300_000, by_path();
        /// The timeout between two chunks of a reply, in milliseconds.
        /// Some providers send nothing while a model thinks.
        stall_timeout_ms: u64 = 300_000, by_path();
        /// The timeout of a whole reply, in milliseconds.
        total_timeout_ms: u64 = 600_000, by_path();
        /// How long a failed call is retried after its first failure, in milliseconds.
        retry_ms: i64 = 120_000, by_path();
        /// The same for a provider that cannot be reached.
        connect_retry_ms: i64 = 30_000, by_path();
        /// Maximum size of a reply's content, in bytes: reply_too_large.
        reply_bytes: usize = 4 << 20, by_path();
        /// The context window of unknown models, in tokens.
        context_window: u64 = 32_768, by_path();
        /// Context window and maximum output of models that the server does not know or knows incorrectly; by
        /// provider:model.
        facts: BTreeMap<String, Facts> = BTreeMap::new(),
            file_only().example("{ \"openai:my-model\" = { context_window = 32768, max_output = 4096 } }");
        /// More providers, by name: `base_url`, `api_key` ("env:NAME", "file:PATH" or the key; unset = the variable
        /// <NAME>_API_KEY), `model` (for runs that choose none), `dialect`. The names openrouter, groq, deepseek,
        /// mistral, xai, together, vllm, lmstudio, llamacpp and ollama-v1 are built in; any other needs a `base_url`,
        /// and uses the protocol in `dialect`: one of these names, openai, anthropic, gemini or ollama (unset = plain
        /// Chat Completions).
        providers: BTreeMap<String, Provider> = BTreeMap::new(),
            file_only().example("{ groq = { model = \"llama-3.3-70b-versatile\" }, mine = { base_url = \"http://gpu:8000/v1\" } }");
        /// Keys of single tenants, by tenant and provider; only the tenant's runs use them.
        tenant_keys: BTreeMap<String, BTreeMap<String, Key>> = BTreeMap::new(),
            file_only().example("{ acme = { openai = \"env:ACME_OPENAI_KEY\" } }");
        gate: Gate = Gate::default(), table::<Gate>();
        openai: OpenAi = OpenAi::default(), table::<OpenAi>();
        anthropic: Anthropic = Anthropic::default(), table::<Anthropic>();
        gemini: Gemini = Gemini::default(), table::<Gemini>();
        ollama: Ollama = Ollama::default(), table::<Ollama>();
        demo: Demo = Demo::default(), table::<Demo>();
    }
}

section! {
    /// OpenAI, or a service with its Chat Completions API.
    OpenAi {
        #[serde(with = "super::secret")]
        api_key: Option<SecretString> = None, named("OPENAI_API_KEY").renewed().example("\"sk-…\"");
        /// Another endpoint; it then needs no key.
        base_url: Option<String> = None, named("OPENAI_BASE_URL").example("\"http://localhost:11434/v1\"");
        /// The model if only this provider is chosen.
        model: String = "gpt-4.1-mini".to_owned(), by_path();
    }
}

section! {
    /// Anthropic, or a service with its Messages API.
    Anthropic {
        #[serde(with = "super::secret")]
        api_key: Option<SecretString> = None, named("ANTHROPIC_API_KEY").renewed().example("\"sk-ant-…\"");
        /// Another endpoint; it then needs no key.
        base_url: Option<String> = None, named("ANTHROPIC_BASE_URL").example("\"http://localhost:4000\"");
        /// The model if only this provider is chosen.
        model: String = "claude-sonnet-4-5".to_owned(), by_path();
    }
}

section! {
    /// Gemini's own API.
    Gemini {
        #[serde(with = "super::secret")]
        api_key: Option<SecretString> = None, named("GEMINI_API_KEY").renewed().example("\"AIza…\"");
        /// Another endpoint; it then needs no key.
        base_url: Option<String> = None, by_path().example("\"http://localhost:8081/v1beta\"");
        /// The model if only this provider is chosen.
        model: String = "gemini-2.5-flash".to_owned(), by_path();
    }
}

section! {
    /// Ollama's own API.
    Ollama {
        #[serde(with = "super::secret")]
        api_key: Option<SecretString> = None, named("OLLAMA_API_KEY").renewed().example("\"…\"");
        /// Its address, with or without scheme and port.
        host: Option<String> = None, named("OLLAMA_HOST").example("\"localhost:11434\"");
        /// The model if only this provider is chosen.
        model: String = "llama3.2".to_owned(), by_path();
        /// How many tokens prompt and reply may use together; more tokens need more memory.
        num_ctx: u64 = 16_384, by_path();
    }
}

section! {
    /// The scripted model: no key, no network.
    Demo {
        /// A script with more replies, for tests.
        script: Option<PathBuf> = None, named("PES_DEMO_SCRIPT").example("\"script.toml\"");
        /// The time between two tokens, in milliseconds; 0 = none.
        pace_ms: u64 = 20, named("PES_DEMO_PACE");
    }
}

/// The limits of a model, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// Prompt and reply together.
    pub context_window: Option<u64>,
    /// The maximum output.
    pub max_output: Option<u64>,
}

/// The name of the scripted provider.
pub const DEMO_PROVIDER: &str = "demo";
/// Its only model.
pub const DEMO_MODEL: &str = "demo-scripted";

impl Models {
    /// The models of runs that choose none: `choice`, else the configured providers, else the demo. Never empty.
    pub fn chosen(&self) -> Vec<ModelRef> {
        if !self.choice.is_empty() {
            return self.choice.clone();
        }
        let own = self.own_wires().into_iter().filter(|(.., is_set)| *is_set);
        let own = own.map(|(name, model, _)| (name.to_owned(), model.clone()));
        let more = self.providers.iter().filter_map(|(name, provider)| Some((name.clone(), provider.model.clone()?)));
        let (provider, model) = own.chain(more).next().unwrap_or((DEMO_PROVIDER.to_owned(), DEMO_MODEL.to_owned()));
        vec![ModelRef { provider, model }]
    }

    /// Providers with a section of their own, in order of preference: each with its model, and whether it is
    /// configured.
    pub fn own_wires(&self) -> [(&'static str, &String, bool); 4] {
        let Self { openai, anthropic, gemini, ollama, .. } = self;
        [
            ("openai", &openai.model, openai.api_key.is_some() || openai.base_url.is_some()),
            ("anthropic", &anthropic.model, anthropic.api_key.is_some() || anthropic.base_url.is_some()),
            ("gemini", &gemini.model, gemini.api_key.is_some() || gemini.base_url.is_some()),
            ("ollama", &ollama.model, ollama.host.is_some()),
        ]
    }

    /// Whether answers come from a script.
    pub fn is_demo(&self) -> bool {
        self.chosen().iter().any(|chosen| chosen.provider == DEMO_PROVIDER)
    }
}

/// `provider:model`; the model's name may contain colons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    pub provider: String,
    pub model: String,
}

impl FromStr for ModelRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "provider:model (for example openai:gpt-4.1-mini)";
        match text.trim().split_once(':') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            None if text.trim().is_empty() => Err(format!("an empty text is not {EXAMPLE}")),
            Some(_) | None => Err(format!("`{text}` is not {EXAMPLE}")),
        }
    }
}

impl TryFrom<String> for ModelRef {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> Self {
        model.to_string()
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}
