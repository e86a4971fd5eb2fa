//! Providers by name, and keys by reference: `env:NAME`, `file:PATH`, or the key itself.

use std::collections::BTreeSet;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::Error;
use super::env::Variables;
use super::models::{DEMO_PROVIDER, Models};
use super::reference::Reference;
use super::secret::Key;

/// A provider without a section of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    pub base_url: Option<String>,
    pub api_key: Option<Key>,
    /// The model of runs that choose this provider and no model.
    pub model: Option<String>,
    /// The name of its dialect.
    pub dialect: Option<String>,
}

impl Models {
    /// Resolves references to keys, and reads the variables of every named provider: for `groq` these are
    /// `GROQ_API_KEY` and `GROQ_BASE_URL`.
    pub(super) fn resolve(&mut self, variables: &Variables) -> Result<(), Error> {
        let own = self.own_wires().map(|(name, ..)| name);
        let chosen = self.choice.iter().map(|chosen| &chosen.provider);
        let named: BTreeSet<String> =
            chosen.chain(self.tenant_keys.values().flat_map(|keys| keys.keys())).cloned().collect();
        for name in named.iter().filter(|name| !own.contains(&name.as_str()) && *name != DEMO_PROVIDER) {
            self.providers.entry(name.clone()).or_default();
        }
        for (name, provider) in &mut self.providers {
            if own.contains(&name.as_str()) || name == DEMO_PROVIDER {
                let hint = format!("models.providers.{name}: it has a section of its own, [models.{name}]");
                return Err(Error(hint));
            }
            let prefix: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
            if provider.api_key.is_none() {
                let key = variables.get_reference(&format!("{prefix}_API_KEY"))?;
                provider.api_key = key.map(|key| Key(key.into()));
            }
            if provider.base_url.is_none() {
                provider.base_url = variables.get(&format!("{prefix}_BASE_URL")).map(str::to_owned);
            }
            if let Some(Key(key)) = &mut provider.api_key {
                follow(key, &format!("models.providers.{name}.api_key"), variables)?;
            }
        }
        let sections = [
            (&mut self.openai.api_key, "models.openai.api_key"),
            (&mut self.anthropic.api_key, "models.anthropic.api_key"),
            (&mut self.gemini.api_key, "models.gemini.api_key"),
            (&mut self.ollama.api_key, "models.ollama.api_key"),
        ];
        for (key, place) in sections {
            if let Some(key) = key {
                follow(key, place, variables)?;
            }
        }
        for (tenant, keys) in &mut self.tenant_keys {
            for (provider, Key(key)) in keys {
                follow(key, &format!("models.tenant_keys.{tenant}.{provider}"), variables)?;
            }
        }
        Ok(())
    }
}

/// Resolves a reference. A plain key stays as it is, and so does a file that can be read, because its content may
/// change. The error names the setting, never a key.
fn follow(key: &mut SecretString, place: &str, variables: &Variables) -> Result<(), Error> {
    let reference = Reference::from(key.expose_secret().to_owned());
    let found = reference.resolve(variables).map_err(|why| Error(format!("{place}: {why}")))?;
    if !matches!(reference, Reference::File(_)) {
        *key = found;
    }
    Ok(())
}
