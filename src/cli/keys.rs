//! `pes keys`: works through the named server, or through the one that holds the database's folder, else in the database
//! itself. Never in another database than that of the running server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Error;
use super::args::{Flags, KeysCommand};
use super::client::{print, tell, unless_interrupted};
use super::server::Server;
use super::which_server::{local_url, named_url, names_port, only_asks, opens_folder};
use crate::auth::{self, ApiKey, IssueResult, Issued, KeyRotation, NewKey, OPEN_TENANT, RotationResult};
use crate::config::Config;
use crate::config::env::Variables;
use crate::domain::Millis;
use crate::domain::caller::{LOCAL, Scope};
use crate::runtime::clock::{Clock, System};
use crate::store::{Store, TenantRenamed, sqlite};

pub(super) async fn keys(
    command: KeysCommand,
    url: Option<String>,
    flags: &Flags,
    variables: &Variables,
    load: impl Fn() -> Result<Config, Error>,
) -> Result<(), Error> {
    only_asks(flags)?;
    // A key may be made before the first start; everything else is about keys that there are.
    let may_make = matches!(command, KeysCommand::New { .. });
    let place = KeysLocation::find(url, flags, variables, load, may_make).await?;
    let is_list = matches!(command, KeysCommand::Ls { .. });
    let running = run(command, &place);
    let done = if is_list { running.await } else { unless_interrupted(running, "pes keys ls").await };
    if let KeysLocation::Store(store, _) = &place {
        store.close().await;
    }
    done
}

/// Where the keys are managed.
enum KeysLocation {
    Server(Box<Server>),
    Store(Arc<dyn Store>, Box<Config>),
}

async fn run(command: KeysCommand, place: &KeysLocation) -> Result<(), Error> {
    match command {
        KeysCommand::New { tenant, name, scopes, expires } => {
            let is_first = place.is_first().await?;
            let usual = if is_first { vec![Scope::Admin] } else { vec![Scope::Read, Scope::Run, Scope::Approve] };
            let tenant = match tenant {
                Some(tenant) => tenant,
                None => place.tenant().await?,
            };
            let name = name.unwrap_or_else(|| format!("cli-{}", &auth::mint_key()[4..12]));
            let new = NewKey { tenant, name, scopes: scopes.unwrap_or(usual), expires_at: expires.map(end) };
            new.check(System::default().now()).map_err(|fault| Error::Usage(fault.detail))?;
            let issued = place.issue(&new).await?;
            if is_first {
                say_first(&new);
            }
            let NewKey { tenant, name, scopes, expires_at } = &new;
            show(&issued, &format!("  {tenant}  {}  {name}  ends {}", joined(scopes), day(*expires_at)))
        }
        KeysCommand::Rotate { key_id, overlap, expires } => {
            let overlap_ms = Millis::try_from(overlap.as_millis()).unwrap_or(Millis::MAX);
            let how = KeyRotation { overlap_ms, expires_at: expires.map(end) };
            how.check(System::default().now()).map_err(|fault| Error::Usage(fault.detail))?;
            let issued = place.rotate(&key_id, &how).await?;
            show(&issued, "")
        }
        KeysCommand::Ls { json: true } => print(&json!({ "items": place.list().await? }).to_string()),
        KeysCommand::Ls { json: false } => {
            let keys = place.list().await?;
            if keys.is_empty() {
                tell("No keys are stored. Try: pes keys new");
            }
            keys.iter().try_for_each(|key| print(&described(key)))
        }
        KeysCommand::Revoke { key_id } => {
            place.revoke(&key_id).await?;
            print(&format!("{key_id} is revoked"))
        }
        KeysCommand::Adopt { tenant } => {
            place.adopt(&tenant).await?;
            print(&format!("what was made without keys belongs to {tenant}"))
        }
    }
}

fn no_key(key_id: &str) -> Error {
    Error::NotFound(format!("there is no active key {key_id}"))
}

/// `what`: whose key it is, and what it may do.
fn show(issued: &Issued, what: &str) -> Result<(), Error> {
    tell(&format!("{}{what} (shown only now)", issued.key_id));
    print(&issued.key)
}

fn end(after: Duration) -> Millis {
    System::default().now().saturating_add(Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX))
}

/// Reports what stops working with the first key of a server.
fn say_first(new: &NewKey) {
    tell("this is the first key: within five seconds every call needs one");
    if !new.scopes.contains(&Scope::Admin) {
        tell(&format!(
            "it may not `admin`: until a key with that scope exists, nobody can manage keys, webhooks, tools, agents and \
             policy or read the audit; to make one, stop the server and run `pes keys new --tenant {} --scopes admin`",
            new.tenant
        ));
    }
    if new.tenant != OPEN_TENANT {
        tell(&format!(
            "what was made without keys belongs to the tenant `{OPEN_TENANT}`; to give it to this one, stop the server \
             and run `pes keys adopt {}`, before anything is made with this key",
            new.tenant
        ));
    }
}

fn joined(scopes: &[Scope]) -> String {
    scopes.iter().copied().map(Scope::as_str).collect::<Vec<_>>().join("+")
}

fn day(at: Option<Millis>) -> String {
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map_or("never".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
}

fn described(key: &ApiKey) -> String {
    let state = match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= System::default().now() => "expired",
        (None, _) => "active",
    };
    let (scopes, used, ends) = (joined(&key.scopes), day(key.last_used_at), day(key.expires_at));
    format!("{}  {state:7}  {}  {scopes}  {}  used {used}  ends {ends}", key.key_id, key.tenant, key.name)
}

impl KeysLocation {
    /// Finds where the running server has its keys, or will have them. `url`: names that server. `may_make`: a database that
    /// is not there is made.
    async fn find(
        url: Option<String>,
        flags: &Flags,
        variables: &Variables,
        load: impl Fn() -> Result<Config, Error>,
        may_make: bool,
    ) -> Result<Self, Error> {
        if let Some(url) = named_url(url, flags, variables)? {
            return Ok(KeysLocation::Server(Box::new(Server::at(&url, variables)?)));
        }
        let config = load()?;
        let configured = local_url(&config.server, config.server.port);
        if names_port(&config, flags) {
            return Ok(KeysLocation::Server(Box::new(Server::at(&configured, variables)?)));
        }
        opens_folder(flags, &config)?;
        let (store, folder) = (&config.store, config.store.data_dir.display());
        if store.url.is_none() {
            if let Some(url) = sqlite::served(&store.data_dir) {
                return Ok(KeysLocation::Server(Box::new(Server::at(&url, variables)?)));
            }
            if Server::at(&configured, variables)?.is_pes().await {
                return Err(Error::Failed(format!(
                    "the server at {configured} has another database than {folder}: send the command to it with \
                     `PES_URL={configured} pes keys …`, or name its database with DATABASE_URL or PES_DATA_DIR"
                )));
            }
        }
        let opened =
            if may_make { crate::store::open(store).await? } else { crate::store::open_existing(store).await? };
        Ok(KeysLocation::Store(opened, Box::new(config)))
    }

    /// Whether no key exists yet.
    async fn is_first(&self) -> Result<bool, Error> {
        match self {
            KeysLocation::Server(server) => Ok(!server.has_key() && server.list().await?.is_empty()),
            KeysLocation::Store(store, config) => {
                Ok(config.auth.keys.is_empty() && auth::list(&**store).await?.is_empty())
            }
        }
    }

    /// The tenant of a new key for which none is named: that of the key which asks; in a database the only one with keys,
    /// or, before the first key, the one of what was made without keys.
    async fn tenant(&self) -> Result<String, Error> {
        let (store, config) = match self {
            KeysLocation::Server(server) => return server.tenant().await,
            KeysLocation::Store(store, config) => (store, config),
        };
        let stored = auth::list(&**store).await?.into_iter().map(|key| key.tenant);
        let tenants: BTreeSet<String> = config.auth.keys.iter().map(|key| key.tenant.clone()).chain(stored).collect();
        let tenants: Vec<String> = tenants.into_iter().collect();
        match tenants.as_slice() {
            [] => Ok(OPEN_TENANT.to_owned()),
            [only] => Ok(only.clone()),
            several => {
                let named = several.join(", ");
                Err(Error::Usage(format!(
                    "There are keys of the tenants {named}. Name one: pes keys new --tenant TENANT"
                )))
            }
        }
    }

    /// Moves everything that was made without keys to a tenant. The store refuses this while servers share the database.
    async fn adopt(&self, tenant: &str) -> Result<(), Error> {
        let KeysLocation::Store(store, _) = self else {
            return Err(Error::Failed("stop the server first: it keeps the names of its tenants in memory".to_owned()));
        };
        auth::check_tenant(tenant).map_err(|fault| Error::Failed(fault.detail))?;
        match store.rename_tenant(OPEN_TENANT, tenant, LOCAL, System::default().now()).await? {
            TenantRenamed::Done => Ok(()),
            TenantRenamed::Unknown => Err(Error::Failed(format!(
                "there is nothing to adopt: what is made without keys belongs to the tenant `{OPEN_TENANT}`, and there is none"
            ))),
            TenantRenamed::InUse => Err(Error::Failed(format!(
                "`{tenant}` has threads or settings of its own, and the data of two tenants is never merged; name a tenant \
                 that has none"
            ))),
            TenantRenamed::SameKeyName(name) => Err(Error::Failed(format!(
                "both `{OPEN_TENANT}` and `{tenant}` have, or had, a key named `{name}`, and the audit knows keys by their \
                 names; name a tenant that has no key of that name"
            ))),
        }
    }

    async fn issue(&self, new: &NewKey) -> Result<Issued, Error> {
        match self {
            KeysLocation::Server(server) => server.issue(new).await,
            KeysLocation::Store(store, config) => {
                let (max_keys, now) = (config.limits.keys_per_tenant, System::default().now());
                match auth::issue(&**store, new, max_keys, LOCAL, now).await? {
                    IssueResult::Made(issued) => Ok(issued),
                    IssueResult::NameTaken => Err(Error::Conflict(auth::name_taken(&new.name).detail)),
                    IssueResult::TooMany => Err(Error::Failed(auth::too_many_keys(max_keys).detail)),
                }
            }
        }
    }

    async fn list(&self) -> Result<Vec<ApiKey>, Error> {
        match self {
            KeysLocation::Server(server) => server.list().await,
            KeysLocation::Store(store, _) => Ok(auth::list(&**store).await?),
        }
    }

    async fn rotate(&self, key_id: &str, how: &KeyRotation) -> Result<Issued, Error> {
        match self {
            KeysLocation::Server(server) => server.rotate(key_id, how).await,
            KeysLocation::Store(store, config) => {
                let (max_keys, now) = (config.limits.keys_per_tenant, System::default().now());
                match auth::rotate(&**store, key_id, how, max_keys, LOCAL, now).await? {
                    RotationResult::Made(issued) => Ok(issued),
                    RotationResult::NoKey => Err(no_key(key_id)),
                    RotationResult::Expired(end) => Err(Error::Failed(auth::expired(end).detail)),
                    RotationResult::TooMany => Err(Error::Failed(auth::too_many_keys(max_keys).detail)),
                    RotationResult::Overlaps(until) => Err(Error::Conflict(auth::overlaps(until).detail)),
                }
            }
        }
    }

    async fn revoke(&self, key_id: &str) -> Result<(), Error> {
        match self {
            KeysLocation::Server(server) => server.revoke(key_id).await,
            KeysLocation::Store(store, _) if auth::revoke(&**store, key_id, LOCAL, System::default().now()).await? => {
                Ok(())
            }
            KeysLocation::Store(..) => Err(no_key(key_id)),
        }
    }
}
