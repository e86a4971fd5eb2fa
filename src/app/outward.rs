//! Builds everything that calls out besides models: the HTTP client and its bounds, and the configured tools.

use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use url::Url;

use super::Error;
use crate::a2a::directory::{Directory, OperatorAgent, bearer};
use crate::config::env::Variables;
use crate::config::{self, Config, Reference};
use crate::domain::Millis;
use crate::domain::tool::ToolSpec;
use crate::egress::{Allow, Destination, Egress, EgressRules, SigningSecret};
use crate::outbox::{DeliveryTiming, Outbox, Webhook, WebhookDirectory};
use crate::store::Store;
use crate::store::documents::{DocumentCache, KeySource, Sealer};
use crate::tool::Tool;
use crate::tool::http::HttpTool;

/// Why a timeout in which nothing can be done is refused.
const NO_TIME: &str = "timeout_ms must be greater than 0";

/// The file with the sealing key, if none is configured.
const KEY_FILE: &str = "sealing.key";

/// The HTTP client for addresses that a model, a tool or a tenant may name.
pub(super) async fn egress(config: &Config, store: &dyn Store, now: Millis) -> Result<Arc<Egress>, Error> {
    let mut rules = egress_rules(config)?;
    for (name, allow) in tenant_allows(config)? {
        rules.tenants.insert(store.tenant(name, now).await?, allow);
    }
    Ok(egress_with(config, rules))
}

/// The additional addresses that each tenant's threads may call, by the tenant's name.
pub(super) fn tenant_allows(config: &Config) -> Result<Vec<(&str, Allow)>, config::Error> {
    let tenants = config.egress.tenants.iter();
    tenants.map(|(name, entries)| Ok((name.as_str(), allowed("tenants", entries)?))).collect()
}

/// The HTTP client without the rules of single tenants, which need the store.
pub(crate) fn common_egress(config: &Config) -> Result<Arc<Egress>, config::Error> {
    Ok(egress_with(config, egress_rules(config)?))
}

fn egress_with(config: &Config, rules: EgressRules) -> Arc<Egress> {
    Arc::new(Egress::with_rules(Duration::from_millis(config.egress.connect_timeout_ms), rules))
}

fn egress_rules(config: &Config) -> Result<EgressRules, config::Error> {
    Ok(EgressRules {
        allow: allowed("allow", &config.egress.allow)?,
        deny: config.denies_egress(),
        plain_http: config.egress.plain_http,
        ..EgressRules::default()
    })
}

fn allowed(key: &str, entries: &[String]) -> Result<Allow, config::Error> {
    Allow::parse(entries).map_err(|why| config::Error(format!("egress.{key}: {why}")))
}

/// An address that the operator names under this key. The error does not repeat it, because it may contain a password.
fn operator_url(key: &str, address: &str) -> Result<Url, String> {
    let url: Url = address.parse().map_err(|error| format!("`{key}` is no URL: {error}"))?;
    if matches!(url.scheme(), "http" | "https") { Ok(url) } else { Err(format!("`{key}` is not an http or https URL")) }
}

/// `[[tools.http]]`: tools of all tenants, whose addresses the operator vouches for.
pub(super) fn http_tools(config: &Config, egress: &Arc<Egress>) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let variables = Variables::of_process();
    let tool = |named: &config::HttpTool| {
        let wrong = |why: String| config::Error(format!("tools.http {}: {why}", named.name));
        let url = operator_url("url", &named.url).map_err(wrong)?;
        if named.timeout_ms == 0 {
            return Err(wrong(NO_TIME.to_owned()).into());
        }
        let secret =
            named.secret.as_ref().map(|reference| signing_secret(&variables, reference).map_err(wrong)).transpose()?;
        let (to, bytes) = (Destination::Operator(url), config.limits.tool_output_bytes);
        let tool = HttpTool::new(tool_spec(named), to, Ok(secret.into_iter().collect()), egress.clone(), bytes);
        Ok(Arc::new(tool) as Arc<dyn Tool>)
    };
    config.tools.http.iter().map(tool).collect()
}

/// Seals with `PES_SEALING_KEY` and opens also with the keys that it replaced, the key file among them. Without that setting
/// it uses the key file, which only an embedded database has.
pub(crate) fn sealer(config: &Config) -> Sealer {
    let file = config.store.url.is_none().then(|| KeySource::File(config.store.data_dir.join(KEY_FILE)));
    match &config.auth.sealing_key {
        Some(key) => {
            let old = config.auth.sealing_keys_old.iter().map(|key| KeySource::Given(key.0.clone()));
            Sealer::with_old(KeySource::Given(key.clone()), old.chain(file).collect())
        }
        None => Sealer::new(file.unwrap_or(KeySource::None)),
    }
}

/// The outbox, with `[[webhooks]]` and the webhooks of tenants as receivers.
pub(super) async fn outbox(
    config: &Config,
    store: &dyn Store,
    documents: &Arc<DocumentCache>,
    sealer: &Arc<Sealer>,
    egress: &Arc<Egress>,
    now: Millis,
) -> Result<Outbox, Error> {
    let mut fixed = Vec::with_capacity(config.webhooks.len());
    for (tenant, webhook) in webhooks(config)? {
        let owner = match tenant {
            Some(name) => Some(store.tenant(name, now).await?),
            None => None,
        };
        fixed.push((owner, Arc::new(webhook)));
    }
    let timing = DeliveryTiming {
        backoff: config.outbox.backoff_ms.clone(),
        push_backoff: config.outbox.push_backoff_ms.clone(),
        push_retry_for: config.outbox.push_for_ms,
        attempt_timeout: Duration::from_millis(config.outbox.attempt_timeout_ms),
        retention: config.outbox.kept_ms,
    };
    Ok(Outbox::new(WebhookDirectory::new(fixed, documents.clone(), sealer.clone()), egress.clone(), timing))
}

/// `[[webhooks]]`, each with the name of its tenant.
pub(super) fn webhooks(config: &Config) -> Result<Vec<(Option<&str>, Webhook)>, config::Error> {
    let variables = Variables::of_process();
    let webhook = |named: &config::Webhook| -> Result<Webhook, config::Error> {
        let wrong = |why: String| config::Error(format!("webhooks {}: {why}", named.id));
        let url = operator_url("url", &named.url).map_err(wrong)?;
        let secrets = named.secrets.iter().map(|reference| signing_secret(&variables, reference).map_err(wrong));
        Ok(Webhook {
            id: named.id.clone(),
            to: Destination::Operator(url),
            events: named.events.clone(),
            secrets: Ok(secrets.collect::<Result<_, _>>()?),
            secret_count: named.secrets.len(),
            is_fixed: true,
        })
    };
    config.webhooks.iter().map(|named| Ok((named.tenant.as_deref(), webhook(named)?))).collect()
}

fn signing_secret(variables: &Variables, reference: &Reference) -> Result<SigningSecret, String> {
    let text = reference.follow(variables)?;
    SigningSecret::parse(text.expose_secret())
}

fn tool_spec(tool: &config::HttpTool) -> ToolSpec {
    ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        class: tool.class,
        idempotent: tool.idempotent,
        timeout_ms: i64::try_from(tool.timeout_ms).unwrap_or(i64::MAX),
        risk_level: None,
    }
}

/// The agents of `[[agents]]` and those of tenants.
pub(super) fn agents(
    config: &Config,
    documents: &Arc<DocumentCache>,
    sealer: &Arc<Sealer>,
    egress: &Arc<Egress>,
) -> Result<Arc<Directory>, Error> {
    let operator_agents = operator_agents(config)?;
    let (timeout, max_bytes) = (Duration::from_millis(config.delegation.call_ms), 4 * config.limits.tool_output_bytes);
    Ok(Directory::new(operator_agents, documents.clone(), sealer.clone(), egress.clone(), timeout, max_bytes))
}

/// `[[agents]]`.
pub(super) fn operator_agents(config: &Config) -> Result<Vec<OperatorAgent>, config::Error> {
    let variables = Variables::of_process();
    let operator_agents = config.agents.iter().map(|named| {
        let wrong = |why: String| config::Error(format!("agents {}: {why}", named.id));
        let card = operator_url("card", &named.card).map_err(wrong)?;
        if named.timeout_ms.is_some_and(|time| time <= 0) {
            return Err(wrong(NO_TIME.to_owned()));
        }
        let token = named.token.as_ref().map(|reference| {
            let text = reference.follow(&variables)?;
            bearer(text.expose_secret()).ok_or_else(|| "no header can hold its token".to_owned())
        });
        let token = token.transpose().map_err(wrong)?;
        let (id, dedupes, timeout_ms) = (named.id.clone(), named.dedupes, named.timeout_ms);
        Ok(OperatorAgent { id, card, token, dedupes, timeout_ms })
    });
    operator_agents.collect()
}
