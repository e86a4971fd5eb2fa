//! The models of this server, as its configuration names them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::demo::{self, Demo, Script};
use super::openai::{OpenAi, compatible};
use super::{Catalog, ChatModel, ModelFacts, ModelInfo, known};
use crate::config;
use crate::domain::fault::{Code, Fault};
use crate::domain::settings::ModelChoice;
use crate::egress::{Bounds, Egress};

/// Providers by name. Building it opens nothing and asks nobody.
pub struct Models {
    entries: Vec<Entry>,
    default: (String, String),
    /// What the operator says of models, by `provider:model`.
    told: BTreeMap<String, config::Facts>,
    fallbacks: Vec<ModelChoice>,
}

struct Entry {
    provider: String,
    client: Arc<dyn ChatModel>,
    /// As the operator named it, for the list.
    base_url: Option<String>,
    infos: Vec<ModelInfo>,
}

impl Models {
    /// The chosen models, the first of them the default. The fault says which choice cannot be served, and why.
    pub fn new(config: &config::Models) -> Result<Self, Fault> {
        let told = config.facts.clone();
        let mut models = Self { entries: Vec::new(), default: Default::default(), told, fallbacks: Vec::new() };
        let egress = Arc::new(Egress::new(Duration::from_millis(config.connect_timeout_ms)));
        for chosen in config.chosen() {
            if !models.knows(&chosen.provider) {
                models.entries.push(open(&chosen.provider, config, &egress)?);
            }
            models.client(&chosen.provider)?.admit(&chosen.model, &serde_json::Map::new())?;
            models.offer(&chosen.provider, &chosen.model);
        }
        let after_first = config.chosen().into_iter().skip(1);
        models.fallbacks =
            after_first.map(|it| ModelChoice { provider_name: it.provider, model_id: it.model }).collect();
        Ok(models)
    }

    /// One model alone: for tests and for those who embed the server with a model of their own.
    pub fn only(provider: &str, model: &str, client: Arc<dyn ChatModel>) -> Self {
        let entry = Entry { provider: provider.to_owned(), client, base_url: None, infos: Vec::new() };
        let mut models =
            Self { entries: vec![entry], default: Default::default(), told: BTreeMap::new(), fallbacks: Vec::new() };
        models.offer(provider, model);
        models
    }

    fn knows(&self, provider: &str) -> bool {
        self.entries.iter().any(|entry| entry.provider == provider)
    }

    /// Lists a model; the first one listed is the default.
    fn offer(&mut self, provider: &str, model: &str) {
        let is_default = self.default.0.is_empty();
        if is_default {
            self.default = (provider.to_owned(), model.to_owned());
        }
        let facts = self.facts(provider, model);
        for entry in self.entries.iter_mut().filter(|entry| entry.provider == provider) {
            if let Some(known) = entry.infos.iter_mut().find(|info| info.model == model) {
                known.is_default |= is_default;
            } else {
                entry.infos.push(ModelInfo {
                    provider: provider.to_owned(),
                    model: model.to_owned(),
                    is_default,
                    base_url: entry.base_url.clone(),
                    facts,
                    prompts: Vec::new(),
                });
            }
        }
    }

    fn client(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.provider == provider) {
            return Ok(entry.client.clone());
        }
        let known: Vec<&str> = self.entries.iter().map(|entry| entry.provider.as_str()).collect();
        let detail = format!("No provider `{provider}` is configured; there is {}.", known.join(", "));
        Err(Fault::new(Code::Invalid, detail).at("/options/providerConfig/providerName", "unknown provider"))
    }
}

impl Catalog for Models {
    fn model(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        self.client(provider)
    }

    fn list(&self) -> Vec<ModelInfo> {
        self.entries.iter().flat_map(|entry| entry.infos.iter().cloned()).collect()
    }

    fn default_model(&self) -> (String, String) {
        self.default.clone()
    }

    fn facts(&self, provider: &str, model: &str) -> ModelFacts {
        let told = self.told.get(&format!("{provider}:{model}")).copied().unwrap_or_default();
        let known = known::facts(model);
        ModelFacts {
            context_window: told.context_window.or(known.context_window),
            max_output: told.max_output.or(known.max_output),
        }
    }

    fn fallbacks(&self) -> Vec<ModelChoice> {
        self.fallbacks.clone()
    }
}

fn open(provider: &str, config: &config::Models, egress: &Arc<Egress>) -> Result<Entry, Fault> {
    let openai = compatible::OPENAI.name;
    if provider == demo::PROVIDER {
        demo(config)
    } else if provider == openai {
        self::openai(config, egress)
    } else {
        let detail = format!("There is no provider `{provider}` to choose; there is {openai} and {}.", demo::PROVIDER);
        Err(Fault::new(Code::Invalid, detail))
    }
}

fn openai(config: &config::Models, egress: &Arc<Egress>) -> Result<Entry, Fault> {
    let (dialect, base_url) = match &config.openai.base_url {
        Some(url) => (compatible::ANY, url.as_str()),
        None => (compatible::OPENAI, compatible::OPENAI.base_url),
    };
    let key = config.openai.api_key.clone();
    if key.is_none() && config.openai.base_url.is_none() {
        let detail =
            "The provider openai is chosen: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint without keys.";
        return Err(Fault::new(Code::Invalid, detail));
    }
    let bounds = Bounds {
        headers: Duration::from_millis(config.header_timeout_ms),
        stall: Duration::from_millis(config.stall_timeout_ms),
        total: Duration::from_millis(config.total_timeout_ms),
        bytes: config.reply_bytes,
    };
    let client = OpenAi::new(dialect, base_url, key, egress.clone(), bounds)?;
    let base_url = config.openai.base_url.as_deref().map(shown);
    Ok(Entry { provider: dialect.name.to_owned(), client: Arc::new(client), base_url, infos: Vec::new() })
}

fn demo(config: &config::Models) -> Result<Entry, Fault> {
    let script = match &config.demo.script {
        Some(path) => read(path)?.or(Script::builtin()),
        None => Script::builtin(),
    };
    let client = Demo::new(script, Duration::from_millis(config.demo.pace_ms));
    let info = ModelInfo {
        provider: demo::PROVIDER.to_owned(),
        model: demo::MODEL.to_owned(),
        is_default: false,
        base_url: None,
        facts: ModelFacts::default(),
        prompts: client.prompts().to_vec(),
    };
    Ok(Entry { provider: demo::PROVIDER.to_owned(), client: Arc::new(client), base_url: None, infos: vec![info] })
}

/// Host and path alone: user, password and query may be secrets.
fn shown(base_url: &str) -> String {
    let url = Url::parse(base_url.trim()).ok();
    url.map(|url| format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/')))
        .unwrap_or_default()
}

fn read(path: &Path) -> Result<Script, Fault> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| Script::parse(&text)).map_err(|error| {
        Fault::new(Code::Invalid, format!("The demo script {} cannot be read: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_keys_offers_the_demo_and_its_prompts() {
        let models = Models::new(&config::Models::default()).unwrap();
        let listed = models.list();
        assert_eq!((listed.len(), listed[0].is_default, listed[0].prompts.len()), (1, true, 3));
        assert_eq!(models.default_model(), ("demo".into(), "demo-scripted".into()));
        assert!(models.model("demo").is_ok());
        let fault = models.model("gpt").err().unwrap();
        assert!(fault.detail.contains("demo") && fault.errors[0].pointer == "/options/providerConfig/providerName");
    }

    #[test]
    fn an_endpoint_of_ones_own_needs_no_key_and_is_listed_without_its_secrets() {
        let base_url = Some("http://me:secret@localhost:11434/v1/?token=secret".into());
        let openai = config::OpenAi { base_url, ..config::OpenAi::default() };
        let models = Models::new(&config::Models { openai, ..config::Models::default() }).unwrap();
        let listed = models.list();
        assert_eq!(listed[0].base_url.as_deref(), Some("http://localhost:11434/v1"));
        assert_eq!((listed.len(), models.default_model().0.as_str()), (1, "openai"));
        let openai = config::OpenAi { base_url: Some("localhost".into()), ..config::OpenAi::default() };
        assert!(Models::new(&config::Models { openai, ..config::Models::default() }).is_err());
    }

    #[test]
    fn a_choice_that_cannot_be_served_is_refused_at_the_start() {
        for choice in ["demo:gpt", "nobody:x", "openai:gpt"] {
            let config = config::Models { choice: vec![choice.parse().unwrap()], ..config::Models::default() };
            assert!(Models::new(&config).is_err(), "{choice}");
        }
        let script = Some("/nowhere/script.toml".into());
        let demo = config::Demo { script, ..config::Demo::default() };
        let fault = Models::new(&config::Models { demo, ..config::Models::default() }).err().unwrap();
        assert!(fault.detail.contains("/nowhere/script.toml"));
    }
}
