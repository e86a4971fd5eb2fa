//! `[models]`

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::section::{by_path, file_only, named, table};

section! {
    /// Which model answers.
    Models {
        /// What runs use that name none, the first that is able: "provider:model". Empty = openai if a key or a base URL
        /// is set, else the demo.
        choice: Vec<ModelRef> = Vec::new(), named("PES_MODEL");
        /// Until a connection stands, in milliseconds.
        connect_timeout_ms: u64 = 10_000, by_path();
        /// From the request to the reply's headers, in milliseconds.
        header_timeout_ms: u64 = 60_000, by_path();
        /// Between two pieces of a reply, in milliseconds.
        stall_timeout_ms: u64 = 60_000, by_path();
        /// A whole reply, in milliseconds.
        total_timeout_ms: u64 = 600_000, by_path();
        /// How long a call that was not answered is tried again, from its first failure on, in milliseconds.
        retry_ms: i64 = 120_000, by_path();
        /// The same for a provider that cannot be reached at all.
        connect_retry_ms: i64 = 30_000, by_path();
        /// The size of a reply, in bytes.
        reply_bytes: usize = 4 << 20, by_path();
        /// How many tokens a model reads and writes in one call, where the server does not know it or knows it wrong;
        /// by provider:model.
        facts: BTreeMap<String, Facts> = BTreeMap::new(),
            file_only().example("{ \"openai:my-model\" = { context_window = 32768, max_output = 4096 } }");
        openai: OpenAi = OpenAi::default(), table::<OpenAi>();
        demo: Demo = Demo::default(), table::<Demo>();
    }
}

section! {
    /// OpenAI, or anything that speaks its Chat Completions.
    OpenAi {
        #[serde(with = "super::secret")]
        api_key: Option<SecretString> = None, named("OPENAI_API_KEY").secret().example("\"sk-…\"");
        /// Another endpoint; it needs no key.
        base_url: Option<String> = None, named("OPENAI_BASE_URL").example("\"http://localhost:11434/v1\"");
        /// The model when only this provider is chosen.
        model: String = "gpt-4.1-mini".to_owned(), by_path();
    }
}

section! {
    /// The scripted model: no key, no network.
    Demo {
        /// More replies, for tests.
        script: Option<PathBuf> = None, named("PES_DEMO_SCRIPT").example("\"script.toml\"");
        /// Between two tokens, in milliseconds; 0 = none.
        pace_ms: u64 = 20, named("PES_DEMO_PACE");
    }
}

/// What an operator says of a model, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// Prompt and reply together.
    pub context_window: Option<u64>,
    /// The longest reply.
    pub max_output: Option<u64>,
}

/// The name of the scripted provider and of its only model.
pub const DEMO: (&str, &str) = ("demo", "demo-scripted");

impl Models {
    /// What runs use that name no model: `choice`, else what is configured, else the demo. Never empty.
    pub fn chosen(&self) -> Vec<ModelRef> {
        if !self.choice.is_empty() {
            return self.choice.clone();
        }
        if self.openai.api_key.is_some() || self.openai.base_url.is_some() {
            return vec![ModelRef { provider: "openai".to_owned(), model: self.openai.model.clone() }];
        }
        vec![ModelRef { provider: DEMO.0.to_owned(), model: DEMO.1.to_owned() }]
    }

    /// Whether answers come from a script.
    pub fn is_demo(&self) -> bool {
        self.chosen().iter().any(|chosen| chosen.provider == DEMO.0)
    }
}

/// `provider:model`; the model's name may itself hold colons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    pub provider: String,
    pub model: String,
}

impl FromStr for ModelRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().split_once(':') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            Some(_) | None => Err(format!("`{text}` is not provider:model")),
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
