//! The models that the configuration names.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::demo::{self, Demo, Script};
use super::known::KnownFacts;
use super::opening::{OpenedProvider, ProviderOpener};
use super::{Catalog, ChatModel, ModelFacts, ModelInfo};
use crate::config;
use crate::domain::fault::{Code, Fault};
use crate::domain::settings::ModelChoice;

/// Providers by name. Building it opens no connections.
pub struct Models {
    entries: Vec<ProviderEntry>,
    default: (String, String),
    known: Arc<KnownFacts>,
    fallbacks: Vec<ModelChoice>,
}

struct ProviderEntry {
    provider: String,
    opened: OpenedProvider,
    infos: Vec<ModelInfo>,
}

impl Models {
    /// The chosen models, the first of them the default, and all other configured providers. The fault says which entry
    /// cannot be used, and why.
    pub fn new(config: &config::Models) -> Result<Self, Fault> {
        let known = Arc::new(KnownFacts::new(config));
        let mut models = Self::empty(known.clone());
        let opener = ProviderOpener::new(config, known);
        for chosen in config.chosen() {
            models.open(&chosen.provider, config, &opener)?;
            models.entry(&chosen.provider)?.some_client()?.admit(&chosen.model, &serde_json::Map::new())?;
            models.offer(&chosen.provider, &chosen.model);
        }
        let after_first = config.chosen().into_iter().skip(1);
        models.fallbacks =
            after_first.map(|it| ModelChoice { provider_name: it.provider, model_id: it.model }).collect();
        for (provider, model, is_set) in config.own_wires() {
            let has_tenants = config.tenant_keys.values().any(|keys| keys.contains_key(provider));
            if is_set || has_tenants {
                models.open(provider, config, &opener)?;
                models.offer_default(provider, model)?;
            }
        }
        for (provider, said) in &config.providers {
            models.open(provider, config, &opener)?;
            if let Some(model) = &said.model {
                models.offer_default(provider, model)?;
            }
        }
        Ok(models)
    }

    /// A single model, for tests and for embedders with a model of their own.
    pub fn only(provider: &str, model: &str, client: Arc<dyn ChatModel>) -> Self {
        let mut models = Self::empty(Arc::default());
        models.entries.push(ProviderEntry::of(provider, client, Vec::new()));
        models.offer(provider, model);
        models
    }

    fn empty(known: Arc<KnownFacts>) -> Self {
        Self { entries: Vec::new(), default: Default::default(), known, fallbacks: Vec::new() }
    }

    fn open(&mut self, provider: &str, config: &config::Models, opener: &ProviderOpener<'_>) -> Result<(), Fault> {
        if self.entries.iter().any(|entry| entry.provider == provider) {
            return Ok(());
        }
        let entry = match provider {
            demo::PROVIDER => demo(config)?,
            _ => ProviderEntry { provider: provider.to_owned(), opened: opener.open(provider)?, infos: Vec::new() },
        };
        self.entries.push(entry);
        Ok(())
    }

    /// Lists a provider's default model, unless one of its models was chosen by name.
    fn offer_default(&mut self, provider: &str, model: &str) -> Result<(), Fault> {
        if self.entry(provider)?.infos.is_empty() {
            self.offer(provider, model);
        }
        Ok(())
    }

    /// Lists a model; the first one listed is the default.
    fn offer(&mut self, provider: &str, model: &str) {
        let is_default = self.default.0.is_empty();
        if is_default {
            self.default = (provider.to_owned(), model.to_owned());
        }
        let facts = self.known.facts(provider, model);
        for entry in self.entries.iter_mut().filter(|entry| entry.provider == provider) {
            if let Some(known) = entry.infos.iter_mut().find(|info| info.model == model) {
                known.is_default |= is_default;
            } else {
                entry.infos.push(ModelInfo {
                    provider: provider.to_owned(),
                    model: model.to_owned(),
                    is_default,
                    base_url: entry.opened.base_url.clone(),
                    facts,
                    health: None,
                    prompts: Vec::new(),
                    check: None,
                });
            }
        }
    }

    fn entry(&self, provider: &str) -> Result<&ProviderEntry, Fault> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.provider == provider) {
            return Ok(entry);
        }
        let known: Vec<&str> = self.entries.iter().map(|entry| entry.provider.as_str()).collect();
        let detail = format!("No provider `{provider}` is configured; there is {}.", known.join(", "));
        Err(Fault::new(Code::Invalid, detail).at("/options/providerConfig/providerName", "unknown provider"))
    }
}

impl ProviderEntry {
    fn of(provider: &str, client: Arc<dyn ChatModel>, infos: Vec<ModelInfo>) -> Self {
        let opened = OpenedProvider { client: Some(client), by_tenant: Vec::new(), base_url: None };
        Self { provider: provider.to_owned(), opened, infos }
    }

    fn client(&self) -> Result<Arc<dyn ChatModel>, Fault> {
        self.opened.client.clone().ok_or_else(|| {
            let detail = format!("The provider `{}` has no key for this tenant.", self.provider);
            Fault::new(Code::Invalid, detail.clone()).at("/options/providerConfig/providerName", detail)
        })
    }

    fn client_of(&self, tenant: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        match self.opened.by_tenant.iter().find(|(known, _)| known == tenant) {
            Some((_, client)) => Ok(client.clone()),
            None => self.client(),
        }
    }

    /// Any of the clients: they differ only by their keys.
    fn some_client(&self) -> Result<Arc<dyn ChatModel>, Fault> {
        match self.opened.by_tenant.first() {
            Some((_, client)) => Ok(client.clone()),
            None => self.client(),
        }
    }
}

impl Catalog for Models {
    fn model(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        self.entry(provider)?.client()
    }

    fn model_of(&self, tenant: &str, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        self.entry(provider)?.client_of(tenant)
    }

    fn list(&self) -> Vec<ModelInfo> {
        self.entries.iter().flat_map(|entry| entry.infos.iter().cloned()).collect()
    }

    fn default_model(&self) -> (String, String) {
        self.default.clone()
    }

    fn facts(&self, provider: &str, model: &str) -> ModelFacts {
        self.known.facts(provider, model)
    }

    fn fallbacks(&self) -> Vec<ModelChoice> {
        self.fallbacks.clone()
    }
}

/// The demo model's script: the operator's, then the built-in one.
pub fn demo_script(config: &config::Models) -> Result<Script, Fault> {
    match &config.demo.script {
        Some(path) => Ok(read(path)?.or(Script::builtin())),
        None => Ok(Script::builtin()),
    }
}

fn demo(config: &config::Models) -> Result<ProviderEntry, Fault> {
    let client = Demo::new(demo_script(config)?, Duration::from_millis(config.demo.pace_ms));
    let info = ModelInfo {
        provider: demo::PROVIDER.to_owned(),
        model: demo::MODEL.to_owned(),
        is_default: false,
        base_url: None,
        facts: ModelFacts::default(),
        health: None,
        prompts: client.prompts().to_vec(),
        check: None,
    };
    Ok(ProviderEntry::of(demo::PROVIDER, Arc::new(client), vec![info]))
}

fn read(path: &Path) -> Result<Script, Fault> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| Script::parse(&text)).map_err(|error| {
        Fault::new(Code::Invalid, format!("The demo script {} cannot be read: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests;
