//! Builds the client of a configured provider from its endpoint, wire and key.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::endpoint::Endpoint;
use super::key::KeyHeader;
use super::known::KnownFacts;
use super::openai::compatible::{ANY, DIALECTS, Dialect};
use super::{ChatModel, anthropic, gemini, ollama, openai};
use crate::config;
use crate::domain::fault::{Code, Fault};
use crate::egress::{Bounds, Egress};

/// A provider with a wire of its own. To add one, add a row below.
struct OwnWire {
    name: &'static str,
    base_url: &'static str,
    /// Whether that endpoint requires a key.
    needs_key: bool,
    key: KeyHeader,
    open: fn(Endpoint, &ProviderOpener<'_>) -> Arc<dyn ChatModel>,
}

const OWN_WIRES: &[OwnWire] = &[
    OwnWire {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        needs_key: true,
        key: KeyHeader::Header("x-api-key"),
        open: |endpoint, opener| anthropic::open(endpoint, opener.known.clone()),
    },
    OwnWire {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        needs_key: true,
        key: KeyHeader::Header("x-goog-api-key"),
        open: |endpoint, _| gemini::open(endpoint),
    },
    OwnWire {
        name: "ollama",
        base_url: "http://localhost:11434",
        needs_key: false,
        key: KeyHeader::Bearer,
        open: |endpoint, opener| ollama::open(endpoint, opener.config.ollama.num_ctx),
    },
];

/// The wire of a provider.
#[derive(Clone, Copy)]
enum WireChoice {
    Own(&'static OwnWire),
    Compatible(Dialect),
}

/// The configuration of one provider.
struct ConfiguredProvider<'c> {
    base_url: Option<Cow<'c, str>>,
    key: Option<&'c SecretString>,
    dialect: Option<&'c str>,
}

pub(super) struct ProviderOpener<'c> {
    config: &'c config::Models,
    egress: Arc<Egress>,
    known: Arc<KnownFacts>,
}

/// A provider that can be called.
pub(super) struct OpenedProvider {
    /// `None`: only tenants with a key of their own can call it.
    pub(super) client: Option<Arc<dyn ChatModel>>,
    pub(super) by_tenant: Vec<(String, Arc<dyn ChatModel>)>,
    /// As the operator configured it, without parts that may be secret.
    pub(super) base_url: Option<String>,
}

impl<'c> ProviderOpener<'c> {
    pub(super) fn new(config: &'c config::Models, known: Arc<KnownFacts>) -> Self {
        let egress = Arc::new(Egress::new(Duration::from_millis(config.connect_timeout_ms)));
        Self { config, egress, known }
    }

    /// Opens no connection; only checks that the provider is configured completely. The fault says what is missing.
    pub(super) fn open(&self, provider: &str) -> Result<OpenedProvider, Fault> {
        let configured = self.configured(provider);
        let wire = choose_wire(provider, &configured)?;
        let (own_url, needs_key) = match wire {
            WireChoice::Own(row) => (row.base_url, row.needs_key),
            WireChoice::Compatible(dialect) => (dialect.base_url, dialect.needs_key),
        };
        let base_url = configured.base_url.as_deref().unwrap_or(own_url);
        let needs_key = needs_key && configured.base_url.is_none();
        let client = match configured.key {
            None if needs_key => None,
            key => Some(self.client(provider, wire, base_url, key)?),
        };
        let tenants = self.config.tenant_keys.iter().filter_map(|(tenant, keys)| Some((tenant, keys.get(provider)?)));
        let by_tenant = tenants
            .map(|(tenant, key)| Ok((tenant.clone(), self.client(provider, wire, base_url, Some(&key.0))?)))
            .collect::<Result<Vec<_>, Fault>>()?;
        if client.is_none() && by_tenant.is_empty() {
            return Err(no_key(provider));
        }
        Ok(OpenedProvider { client, by_tenant, base_url: configured.base_url.as_deref().map(without_secrets) })
    }

    fn client(
        &self,
        provider: &str,
        wire: WireChoice,
        base_url: &str,
        key: Option<&SecretString>,
    ) -> Result<Arc<dyn ChatModel>, Fault> {
        let header = match wire {
            WireChoice::Own(row) => row.key,
            WireChoice::Compatible(_) => KeyHeader::Bearer,
        };
        let key = key.map(|key| (header, key));
        let endpoint = Endpoint::new(provider, base_url, key, self.egress.clone(), bounds(self.config))?;
        Ok(match wire {
            WireChoice::Own(row) => (row.open)(endpoint, self),
            WireChoice::Compatible(dialect) => openai::open(dialect, endpoint),
        })
    }

    fn configured(&self, provider: &str) -> ConfiguredProvider<'c> {
        let config::Models { openai, anthropic, gemini, ollama, providers, .. } = self.config;
        let section = |base_url: &'c Option<String>, key: &'c Option<SecretString>| ConfiguredProvider {
            base_url: base_url.as_deref().map(Cow::Borrowed),
            key: key.as_ref(),
            dialect: None,
        };
        match provider {
            "openai" => section(&openai.base_url, &openai.api_key),
            "anthropic" => section(&anthropic.base_url, &anthropic.api_key),
            "gemini" => section(&gemini.base_url, &gemini.api_key),
            "ollama" => {
                let base_url = ollama.host.as_deref().map(ollama::base_url);
                ConfiguredProvider { base_url, key: ollama.api_key.as_ref(), dialect: None }
            }
            other => providers.get(other).map_or(
                ConfiguredProvider { base_url: None, key: None, dialect: None },
                |provider| ConfiguredProvider {
                    base_url: provider.base_url.as_deref().map(Cow::Borrowed),
                    key: provider.api_key.as_ref().map(|key| &key.0),
                    dialect: provider.dialect.as_deref(),
                },
            ),
        }
    }
}

/// The wire that the configured dialect names, else the one with the provider's name, else plain Chat Completions at
/// the configured URL.
fn choose_wire(provider: &str, configured: &ConfiguredProvider<'_>) -> Result<WireChoice, Fault> {
    let has_url = configured.base_url.is_some();
    let name = match configured.dialect {
        Some(dialect) => dialect,
        None if provider == openai::compatible::OPENAI.name && has_url => ANY.name,
        None => provider,
    };
    if let Some(row) = OWN_WIRES.iter().find(|row| row.name == name) {
        return Ok(WireChoice::Own(row));
    }
    let dialect = DIALECTS.iter().find(|dialect| dialect.name == name);
    match dialect.or((configured.dialect.is_none() && has_url).then_some(&ANY)) {
        Some(dialect) if has_url || !dialect.base_url.is_empty() => Ok(WireChoice::Compatible(*dialect)),
        Some(_) => {
            let detail = format!("models.providers.{provider}.base_url: say where it is.");
            Err(Fault::new(Code::Invalid, detail))
        }
        None => {
            let known = OWN_WIRES.iter().map(|row| row.name).chain(DIALECTS.iter().map(|dialect| dialect.name));
            let known = known.collect::<Vec<_>>().join(", ");
            let detail = match configured.dialect {
                Some(dialect) => format!("models.providers.{provider}.dialect: `{dialect}` is none of {known}."),
                None => format!(
                    "There is no provider `{provider}` to choose; there is {known} and demo, or set \
                     models.providers.{provider}.base_url."
                ),
            };
            Err(Fault::new(Code::Invalid, detail))
        }
    }
}

fn no_key(provider: &str) -> Fault {
    let prefix = provider.to_uppercase().replace(['-', '.'], "_");
    let detail = format!(
        "The provider {provider} is chosen: set {prefix}_API_KEY, or a base URL of your own for an endpoint without keys."
    );
    Fault::new(Code::Invalid, detail)
}

fn bounds(config: &config::Models) -> Bounds {
    Bounds {
        headers: Duration::from_millis(config.header_timeout_ms),
        stall: Duration::from_millis(config.stall_timeout_ms),
        total: Duration::from_millis(config.total_timeout_ms),
        bytes: config.reply_bytes,
    }
}

/// Only host and path: user, password and query may be secrets.
fn without_secrets(base_url: &str) -> String {
    let url = Url::parse(base_url.trim()).ok();
    url.map(|url| format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/')))
        .unwrap_or_default()
}
