//! The checks besides models: the store, the sealing keys, and other services.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::super::reseal::Walk;
use super::Finding;
use super::folder::{folder, unseen};
use super::mcp::mcp_server;
use crate::app::outward;
use crate::auth::{AuditKey, Issuers};
use crate::config::env::Variables;
use crate::config::{Config, OidcIssuer};
use crate::store::documents::Fingerprints;
use crate::store::{self, OldSchema, Store, sqlite};

/// How long a connect may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn findings(config: &Config, variables: &Variables) -> Vec<Finding> {
    let mut findings = database(config).await;
    if config.store.url.is_none() {
        findings.push(Finding::of("folder", folder(&config.store.data_dir)));
    }
    findings.push(Finding::of("sealing key", sealing_key(config)));
    findings.push(Finding::of("audit key", Ok(audit_key(config))));
    let agents = config.agents.iter().map(|agent| (format!("agent {}", agent.id), agent.card.clone()));
    let webhooks = config.webhooks.iter().map(|webhook| (format!("webhook {}", webhook.id), webhook.url.clone()));
    let others = agents.chain(webhooks);
    findings.extend(join_all(others.map(|(what, url)| async move { Finding::of(what, reach(&url).await) })).await);
    let servers = config.mcp.servers.iter().filter(|(_, server)| server.enabled);
    let servers = servers.map(|(name, server)| async move {
        Finding::of(format!("mcp server {name}"), mcp_server(server, variables).await)
    });
    findings.extend(join_all(servers).await);
    findings.extend(issuers(config).await);
    findings
}

/// Opens the database as a server would. If a server holds it, reports it as in use. Never creates or migrates one.
async fn database(config: &Config) -> Vec<Finding> {
    let store = &config.store;
    let of = |found| vec![Finding::of("database", found)];
    if store.url.is_none() {
        if let Some(url) = sqlite::served(&store.data_dir) {
            return of(Ok(format!(
                "in use by the server at {url}: schema, keys and secrets are not checked; its log names what it cannot open"
            )));
        }
        match sqlite::database_of(&store.data_dir).try_exists() {
            Ok(true) => {}
            Ok(false) => {
                return empty(config, format!("{} has none yet; the first start makes it", store.data_dir.display()));
            }
            Err(error) => return of(Err(unseen(&store.data_dir, &error))),
        }
    }
    match store::old_schema(store).await {
        Ok(None) => {}
        Ok(Some(OldSchema { found: 0, .. })) => {
            return empty(config, "it has no tables yet; the first start makes them".to_owned());
        }
        Ok(Some(OldSchema { found, needed })) => {
            return of(Ok(format!("it has schema {found}; the first start migrates it to {needed}")));
        }
        Err(error) => return of(Err(error.to_string())),
    }
    let few = store::too_few_connections(store).await.ok().flatten();
    let few = few.map(|few| Finding::of("connections", Err(few)));
    let opened = match store::open(store).await {
        Ok(opened) => opened,
        Err(error) => return of(Err(error.to_string())),
    };
    let written = opened.ping().await.map_err(|error| error.to_string());
    let place = opened.describe();
    let mut findings = of(written.map(|()| format!("{place} takes writes")));
    findings.extend(few);
    if let Ok(keys) = opened.keys().await {
        findings.extend(keyless(config, keys.iter().any(|key| key.revoked_at.is_none())));
    }
    findings.extend(secrets(config, &*opened).await);
    opened.close().await;
    findings
}

/// The findings about a database that holds nothing yet.
fn empty(config: &Config, said: String) -> Vec<Finding> {
    [Finding::of("database", Ok(said))].into_iter().chain(keyless(config, false)).collect()
}

/// The error of a start that needs keys and has none.
fn keyless(config: &Config, stored: bool) -> Option<Finding> {
    config.check_keys(stored).err().map(|error| Finding::of("keys", Err(error.to_string())))
}

/// One line for each secret that cannot be opened; one line in all if each can.
async fn secrets(config: &Config, store: &dyn Store) -> Vec<Finding> {
    let sealer = outward::sealer(config);
    let found = match Walk::new(store, &sealer, false).run().await {
        Ok(found) => found,
        Err(error) => return vec![Finding::of("secrets", Err(error.to_string()))],
    };
    if !found.unreadable.is_empty() {
        return found.unreadable.into_iter().map(|one| Finding::of("secrets", Err(one))).collect();
    }
    let all = found.stale + found.current;
    let said = match found.stale {
        0 => format!("{all} can be opened, all with the key that seals"),
        stale => format!("{all} can be opened, {stale} only with an old key: `pes reseal` seals them again"),
    };
    vec![Finding::of("secrets", Ok(said))]
}

fn sealing_key(config: &Config) -> Result<String, String> {
    let Fingerprints { current, old } = outward::sealer(config).fingerprints();
    let current = current.unwrap_or_default();
    match (&config.auth.sealing_key, &config.store.url) {
        (Some(_), _) if old.is_empty() => Ok(format!("PES_SEALING_KEY ({current})")),
        (Some(_), _) => Ok(format!("PES_SEALING_KEY ({current}); only opens: {}", old.join(", "))),
        (None, Some(_)) => Err(
            "none: secrets of webhooks, tools and agents are refused; set PES_SEALING_KEY, the same for all replicas"
                .to_owned(),
        ),
        (None, None) => {
            let path = config.store.data_dir.join("sealing.key");
            match std::fs::read(&path) {
                Ok(_) if current.is_empty() => {
                    Err(format!("{} is too short to be the key: restore it from a backup", path.display()))
                }
                Ok(_) => Ok(format!("{} ({current})", path.display())),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok("made when the first secret is kept".to_owned())
                }
                Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
            }
        }
    }
}

fn audit_key(config: &Config) -> String {
    match config.auth.audit_key.as_ref().and_then(AuditKey::of) {
        Some(key) => format!("PES_AUDIT_KEY ({})", key.id()),
        None => "none: checkpoints of the audit and receipts are not signed; set PES_AUDIT_KEY".to_owned(),
    }
}

/// Opens a connection, and sends nothing. Never shows the URL, which may contain a secret.
pub(super) async fn reach(url: &str) -> Result<String, String> {
    let url: Url = url.parse().map_err(|error| format!("its address is no URL: {error}"))?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("its address names no host".to_owned());
    };
    let at = format!("{host}:{port}");
    match timeout(PATIENCE, TcpStream::connect((host.trim_matches(['[', ']']), port))).await {
        Ok(Ok(_)) => Ok(format!("{at} takes connections")),
        Ok(Err(error)) => Err(format!("{at} cannot be reached: {error}")),
        Err(_) => Err(format!("{at} took no connection within {} s", PATIENCE.as_secs())),
    }
}

/// Asks each issuer for its keys, as a server does for the first token.
async fn issuers(config: &Config) -> Vec<Finding> {
    // A mistake in their settings is a finding about the settings.
    let Ok(egress) = outward::common_egress(config) else { return Vec::new() };
    let Ok(issuers) = Issuers::new(&config.auth.oidc, &egress) else { return Vec::new() };
    let asked = issuers.fetch_keys().await.into_iter();
    asked.map(|(name, asked)| issuer(&name, asked, config.auth.oidc.get(&name))).collect()
}

fn issuer(name: &str, asked: Result<usize, String>, settings: Option<&OidcIssuer>) -> Finding {
    let said = match asked {
        Ok(0) => Err("it publishes no key that can sign tokens with RS256, ES256 or EdDSA".to_owned()),
        Ok(keys) => {
            let warning = settings.and_then(OidcIssuer::login_warning).map(|why| format!("; {why}"));
            Ok(format!("publishes keys: {keys}{}", warning.unwrap_or_default()))
        }
        Err(why) => Err(why),
    };
    Finding::of(format!("issuer {name}"), said)
}
