//! All servers: the operator's and the tenants'; which tools each tenant is offered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::definition::{Definition, tool_name};
use super::news::News;
use super::pins::{OPERATOR, Pins};
use super::proxy_tool::ProxyTool;
use super::server::{Profile, Server};
use super::tenants::{Endpoint, Switch};
use super::view::ToolStanding;
use crate::config::{Mcp, McpServer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::egress::Egress;
use crate::store;
use crate::store::documents::{DocumentCache, DocumentKind};
use crate::tool::{Tool, ToolSource};

/// How soon what could not be stored is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What a catalog is put together from.
pub struct Parts {
    pub config: Mcp,
    pub documents: Arc<DocumentCache>,
    pub egress: Arc<Egress>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// Every MCP server that this process talks to.
pub struct Catalog {
    pub(super) config: Mcp,
    pub(super) documents: Arc<DocumentCache>,
    pub(super) egress: Arc<Egress>,
    pub(super) now: Arc<dyn Fn() -> Millis + Send + Sync>,
    pub(super) pins: Pins,
    held: Mutex<CatalogState>,
    /// Grows whenever a tenant may be offered something else.
    offers: watch::Sender<u64>,
    news: News,
    stop: CancellationToken,
}

/// Whose (`None`: the operator's), and its name.
type Key = (Option<TenantPk>, String);

#[derive(Default)]
struct CatalogState {
    servers: BTreeMap<Key, Arc<Server>>,
    /// The document's version that a tenant's server was started from.
    versions: BTreeMap<Key, i64>,
    tools: BTreeMap<(Key, String), Arc<ProxyTool>>,
    /// Changes that were announced.
    announced: BTreeSet<(Key, String)>,
}

impl CatalogState {
    /// Keeps nothing of what the server lists no longer.
    fn forget_others(&mut self, key: &Key, listed: &[Stand]) {
        let names: BTreeSet<&str> = listed.iter().map(|stand| stand.definition.name.as_str()).collect();
        self.tools.retain(|(of, name), _| of != key || names.contains(name.as_str()));
        let hashes: BTreeSet<&str> = listed.iter().map(|stand| stand.definition.hash()).collect();
        self.announced.retain(|(of, hash)| of != key || hashes.contains(hash.as_str()));
    }
}

/// A tool that a server lists, and whether a tenant is offered it.
pub(super) struct Stand {
    pub(super) definition: Arc<Definition>,
    pub(super) standing: ToolStanding,
}

impl Catalog {
    /// Starts every server in the background; returns at once.
    pub fn start(parts: Parts) -> Arc<Self> {
        let Parts { config, documents, egress, now } = parts;
        let pins = Pins::new(documents.clone());
        let catalog = Arc::new(Self {
            config,
            documents,
            egress,
            now,
            pins,
            held: Mutex::default(),
            offers: watch::Sender::new(0),
            news: News::new(),
            stop: CancellationToken::new(),
        });
        catalog.bring_in_line();
        let (keeper, stop) = (catalog.clone(), catalog.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(keeper.follow()).await });
        catalog
    }

    /// Notified whenever a tenant's tools may have changed.
    pub fn offers(&self) -> watch::Receiver<u64> {
        self.offers.subscribe()
    }

    /// Ends every server.
    pub fn close(&self) {
        self.stop.cancel();
        for server in self.held().servers.values() {
            server.end();
        }
    }

    /// Follows changes of servers and documents, and applies them.
    async fn follow(&self) {
        let (mut news, mut documents) = (self.news.wakes(), self.documents.changes());
        loop {
            self.bring_in_line();
            let stored = self.settle().await;
            self.offers.send_modify(|offers| *offers += 1);
            let again = async {
                match &stored {
                    Ok(()) => std::future::pending().await,
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            };
            if let Err(error) = &stored {
                tracing::warn!(%error, "new tools of MCP servers could not be stored; they are not offered yet");
            }
            tokio::select! {
                Ok(()) = news.changed() => {}
                Ok(()) = documents.changed() => {}
                () = again => {}
                else => return,
            }
        }
    }

    /// Starts what is described and does not run, ends what runs and is not described (so) any more.
    pub(crate) fn bring_in_line(&self) {
        let mut wanted: BTreeMap<Key, (McpServer, i64)> = BTreeMap::new();
        for (name, server) in self.config.servers.iter().filter(|(_, server)| server.enabled) {
            wanted.insert((None, name.clone()), (server.clone(), 0));
        }
        for document in self.documents.all(DocumentKind::McpServer) {
            if let Ok(Some(endpoint)) = Endpoint::of(&document)
                && endpoint.enabled
            {
                let key = (Some(document.tenant), document.id.clone());
                wanted.insert(key, (endpoint.settings(), document.version));
            }
        }
        let mut held = self.held();
        let CatalogState { servers, versions, tools, .. } = &mut *held;
        let mut owners = BTreeSet::new();
        servers.retain(|key, server| {
            let stays = wanted.get(key).is_some_and(|(_, version)| versions.get(key) == Some(version));
            if !stays {
                server.end();
                versions.remove(key);
                tools.retain(|(of, _), _| of != key);
                owners.insert(key.0);
            }
            stays
        });
        for (key, (settings, version)) in wanted {
            let profile = |name: &str| self.profile(key.0, name, settings.clone());
            let entry = servers.entry(key.clone());
            entry.or_insert_with(|| {
                owners.insert(key.0);
                Server::start(profile(&key.1), self.egress.clone(), self.news.clone())
            });
            versions.insert(key, version);
        }
        owners.into_iter().for_each(|owner| self.news.tell(owner));
    }

    fn profile(&self, owner: Option<TenantPk>, name: &str, settings: McpServer) -> Profile {
        Profile {
            name: name.into(),
            owner,
            settings,
            start: Duration::from_millis(self.config.start_timeout_ms),
            message_bytes: self.config.message_bytes,
            most_tools: self.config.tools_per_server,
        }
    }

    /// Pins what each server lists for the first time, and says what has changed: of those alone that list something else
    /// than when that was last done, or of which something else is trusted.
    async fn settle(&self) -> store::Result<()> {
        let servers: Vec<(Key, Arc<Server>)> =
            self.held().servers.iter().map(|(key, server)| (key.clone(), server.clone())).collect();
        let mut stored = Ok(());
        for (key, server) in servers {
            let (profile, state) = (&server.profile, server.state());
            let version = || self.pins.version(profile.owner, &profile.name);
            let seen = (state.listing, version());
            let Some(listed) = state.listed.filter(|_| !server.is_settled(seen)) else { continue };
            match self.pins.first_seen(profile.owner, &profile.name, &listed, (self.now)()).await {
                Ok(()) => {
                    self.announce(&key, &server);
                    // What was just pinned is looked at once more: somebody may have written at the same time.
                    if version() == seen.1 {
                        server.settle(seen);
                    }
                }
                Err(error) => stored = Err(error),
            }
        }
        stored
    }

    /// How many tools are off because their definition has changed: of each server of the operator, and of all that tenants
    /// have. What is gone is not among them.
    pub fn changed_tools(&self) -> Vec<(String, usize)> {
        let servers: Vec<Arc<Server>> = self.held().servers.values().cloned().collect();
        let mut changed = BTreeMap::<String, usize>::new();
        for server in servers {
            let stands = self.stands(server.profile.owner.unwrap_or(TenantPk(0)), &server);
            let count = stands.iter().filter(|stand| stand.standing == ToolStanding::Changed).count();
            *changed.entry(server.profile.label()).or_default() += count;
        }
        changed.into_iter().collect()
    }

    /// Says once of every tool whose definition has changed that it is off.
    fn announce(&self, key: &Key, server: &Arc<Server>) {
        let stands = self.stands(key.0.unwrap_or(TenantPk(0)), server);
        let mut held = self.held();
        held.forget_others(key, &stands);
        for stand in stands.iter().filter(|stand| stand.standing == ToolStanding::Changed) {
            let tool = tool_name(&key.1, &stand.definition.name);
            if held.announced.insert((key.clone(), stand.definition.hash().to_owned())) {
                tracing::warn!(tool, "an MCP server describes this tool otherwise now; it is off until approved");
            }
        }
    }

    /// The servers that a tenant sees, its own and the operator's, in order of their names. Its own does not hide the
    /// operator's.
    pub(super) fn seen_by(&self, tenant: TenantPk) -> Vec<Arc<Server>> {
        let held = self.held();
        let is_seen = |key: &Key| match key.0 {
            None => true,
            Some(owner) => owner == tenant && !self.config.servers.contains_key(&key.1),
        };
        let mut seen: Vec<_> =
            held.servers.iter().filter(|(key, _)| is_seen(key)).map(|(_, server)| server.clone()).collect();
        seen.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
        seen
    }

    /// What a server lists (before it has, what it listed when it was last approved), and how each tool stands.
    pub(super) fn stands(&self, tenant: TenantPk, server: &Arc<Server>) -> Vec<Stand> {
        let profile = &server.profile;
        let trusted = self.pins.of(tenant, profile.owner, &profile.name);
        let listed: Vec<Arc<Definition>> = match server.state().listed {
            Some(listed) => listed.to_vec(),
            None => trusted.all(),
        };
        let mut names = BTreeSet::new();
        let stand = |definition: Arc<Definition>| {
            let is_first = names.insert(tool_name(&profile.name, &definition.name));
            let standing = match trusted.get(&definition.name) {
                _ if !is_first => ToolStanding::Shadowed,
                _ if definition.refused.is_some() => ToolStanding::Refused,
                _ if !definition.is_allowed(&profile.settings) => ToolStanding::Denied,
                Some(known) if *known == *definition => ToolStanding::Offered,
                Some(_) | None => ToolStanding::Changed,
            };
            Stand { definition, standing }
        };
        listed.into_iter().map(stand).collect()
    }

    /// Whether a tenant switched one of the operator's servers off for itself.
    pub(super) fn is_off(&self, tenant: TenantPk, server: &Server) -> bool {
        let own = self.documents.get(tenant, DocumentKind::McpServer, &server.profile.name);
        server.profile.owner.is_none() && own.and_then(|own| Switch::of(&own)).is_some_and(|switch| !switch.enabled)
    }

    /// The same tool again as long as server and definition are the same.
    fn tool(&self, server: &Arc<Server>, definition: Arc<Definition>) -> Arc<ProxyTool> {
        let key: Key = (server.profile.owner, server.profile.name.to_string());
        let mut held = self.held();
        let place = (key, definition.name.clone());
        match held.tools.get(&place) {
            Some(tool) if tool.is_of(server, &definition) => tool.clone(),
            Some(_) | None => {
                let tool = Arc::new(ProxyTool::new(server.clone(), definition));
                held.tools.insert(place, tool.clone());
                tool
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, CatalogState> {
        self.held.lock()
    }
}

impl ToolSource for Catalog {
    fn generation(&self, tenant: TenantPk) -> u64 {
        let own = [DocumentKind::McpServer, DocumentKind::McpTools].map(|kind| self.documents.changes_of(tenant, kind));
        let for_all = self.documents.changes_of(OPERATOR, DocumentKind::McpTools);
        own.into_iter().fold(self.news.of(tenant).wrapping_add(for_all), u64::wrapping_add)
    }

    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in self.seen_by(tenant).into_iter().filter(|server| !self.is_off(tenant, server)) {
            let stands = self.stands(tenant, &server);
            let offered = stands.into_iter().filter(|stand| stand.standing == ToolStanding::Offered);
            tools.extend(offered.map(|stand| self.tool(&server, stand.definition) as Arc<dyn Tool>));
        }
        tools.into()
    }
}
