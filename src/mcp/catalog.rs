//! All MCP servers, the operator's and the tenants', and the tools that each tenant is offered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::changes::ChangeCounts;
use super::definition::{Definition, tool_name};
use super::pins::{OPERATOR, Pins, TrustedFor, TrustedTools};
use super::proxy_tool::ProxyTool;
use super::server::{Profile, Server};
use super::tenants::{Endpoint, ServerToggle};
use super::view::ToolStanding;
use crate::config::{Mcp, McpServer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::egress::Egress;
use crate::store;
use crate::store::documents::{DocumentCache, DocumentKind};
use crate::tool::{OffTool, Tool, ToolSource};

/// The delay before storing pins is retried.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The dependencies of a catalog.
pub struct Parts {
    pub config: Mcp,
    pub documents: Arc<DocumentCache>,
    pub egress: Arc<Egress>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// All MCP servers that this process is connected to.
pub struct Catalog {
    pub(super) config: Mcp,
    pub(super) documents: Arc<DocumentCache>,
    pub(super) egress: Arc<Egress>,
    pub(super) now: Arc<dyn Fn() -> Millis + Send + Sync>,
    pub(super) pins: Pins,
    servers: Mutex<BTreeMap<ServerKey, RunningServer>>,
    /// Incremented whenever some tenant's tools may have changed.
    offers: watch::Sender<u64>,
    changes: ChangeCounts,
    stop: CancellationToken,
}

/// The owner (`None`: the operator) and the name of a server.
type ServerKey = (Option<TenantPk>, String);

/// A server that was started, and what is kept of its tools until it is stopped.
struct RunningServer {
    server: Arc<Server>,
    /// Of the document that it was started from; 0: from the configuration.
    version: i64,
    tools: BTreeMap<String, Arc<ProxyTool>>,
    /// The changed definitions that were logged already, by hash.
    logged: BTreeSet<String>,
}

impl RunningServer {
    /// Drops the entries of tools that the server no longer lists.
    fn retain_listed(&mut self, listed: &[ListedTool]) {
        let names: BTreeSet<&str> = listed.iter().map(|tool| tool.definition.name.as_str()).collect();
        self.tools.retain(|name, _| names.contains(name.as_str()));
        let hashes: BTreeSet<&str> = listed.iter().map(|tool| tool.definition.hash()).collect();
        self.logged.retain(|hash| hashes.contains(hash.as_str()));
    }
}

/// A tool that a server lists, and whether it is offered to a tenant.
pub(super) struct ListedTool {
    pub(super) definition: Arc<Definition>,
    pub(super) standing: ToolStanding,
}

impl ListedTool {
    /// Why agents are not offered it.
    pub(super) fn why_off(&self) -> Option<String> {
        let why = match self.standing {
            ToolStanding::Offered => return None,
            ToolStanding::Changed => {
                "its server describes it otherwise than before, so an administrator must approve it"
            }
            ToolStanding::Denied => "the settings of its server exclude it (`allow`, `deny`)",
            ToolStanding::Shadowed => "its server lists another that is offered under this name",
            ToolStanding::Refused => return Some(self.definition.refused.clone().unwrap_or_default()),
        };
        Some(why.to_owned())
    }
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
            servers: Mutex::default(),
            offers: watch::Sender::new(0),
            changes: ChangeCounts::new(),
            stop: CancellationToken::new(),
        });
        catalog.reconcile();
        let (keeper, stop) = (catalog.clone(), catalog.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(keeper.run()).await });
        catalog
    }

    /// Notifies subscribers whenever some tenant's tools may have changed.
    #[cfg(feature = "internals")]
    pub fn offers(&self) -> watch::Receiver<u64> {
        self.offers.subscribe()
    }

    /// Stops every server.
    pub fn close(&self) {
        self.stop.cancel();
        for running in self.lock().values() {
            running.server.end();
        }
    }

    /// Waits for changes of servers and documents, and applies them.
    async fn run(&self) {
        let (mut changes, mut documents) = (self.changes.subscribe(), self.documents.changes());
        loop {
            self.reconcile();
            let stored = self.pin_new_tools().await;
            self.offers.send_modify(|offers| *offers += 1);
            let again = async {
                match &stored {
                    Ok(()) => std::future::pending().await,
                    Err(_) => tokio::time::sleep(RETRY_DELAY).await,
                }
            };
            if let Err(error) = &stored {
                tracing::warn!(%error, "new tools of MCP servers could not be stored; they are not offered yet");
            }
            tokio::select! {
                Ok(()) = changes.changed() => {}
                Ok(()) = documents.changed() => {}
                () = again => {}
                else => return,
            }
        }
    }

    /// Starts the servers that are configured and not running; stops those that run but are no longer configured, or
    /// were reconfigured.
    pub(crate) fn reconcile(&self) {
        let mut wanted: BTreeMap<ServerKey, (McpServer, i64)> = BTreeMap::new();
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
        let mut servers = self.lock();
        let mut owners = BTreeSet::new();
        servers.retain(|key, running| {
            let stays = wanted.get(key).is_some_and(|(_, version)| *version == running.version);
            if !stays {
                running.server.end();
                owners.insert(key.0);
            }
            stays
        });
        for (key, (settings, version)) in wanted {
            servers.entry(key).or_insert_with_key(|(owner, name)| {
                owners.insert(*owner);
                let profile = self.profile(*owner, name, settings);
                let server = Server::start(profile, self.egress.clone(), self.changes.clone());
                RunningServer { server, version, tools: BTreeMap::new(), logged: BTreeSet::new() }
            });
        }
        owners.into_iter().for_each(|owner| self.changes.count(owner));
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

    /// Pins tools that are listed for the first time and logs changed ones. Skips servers whose listing and pins are
    /// the same as when this was last done.
    async fn pin_new_tools(&self) -> store::Result<()> {
        let servers: Vec<(ServerKey, Arc<Server>)> =
            self.lock().iter().map(|(key, running)| (key.clone(), running.server.clone())).collect();
        let mut stored = Ok(());
        for (key, server) in servers {
            let (profile, state) = (&server.profile, server.state());
            let version = || self.pins.version(profile.owner, &profile.name);
            let seen = (state.listing, version());
            let Some(listed) = state.listed.filter(|_| !server.is_processed(seen)) else { continue };
            let allowed: Vec<Arc<Definition>> =
                listed.iter().filter(|listed| listed.is_allowed(&profile.settings)).cloned().collect();
            match self.pins.pin_new(profile.owner, &profile.name, &allowed, (self.now)()).await {
                Ok(()) => {
                    self.log_changed(&key, &server);
                    // If the pins changed, the server is visited again: another process may have written at the same
                    // time.
                    if version() == seen.1 {
                        server.mark_processed(seen);
                    }
                }
                Err(error) => stored = Err(error),
            }
        }
        stored
    }

    /// How many tools are off because their definition has changed: for each of the operator's servers, and for all
    /// tenants' servers together. Removed servers are not counted.
    pub fn changed_tools(&self) -> Vec<(String, usize)> {
        let mut changed = BTreeMap::<String, usize>::new();
        for server in self.running() {
            let listed_tools = self.listed_tools(server.profile.owner.unwrap_or(OPERATOR), &server);
            let count = listed_tools.iter().filter(|tool| tool.standing == ToolStanding::Changed).count();
            *changed.entry(server.profile.label()).or_default() += count;
        }
        changed.into_iter().collect()
    }

    /// The servers of the operator and of all tenants that were started.
    pub(super) fn running(&self) -> Vec<Arc<Server>> {
        self.lock().values().map(|running| running.server.clone()).collect()
    }

    /// Logs once for each changed definition that its tool is off.
    fn log_changed(&self, key: &ServerKey, server: &Arc<Server>) {
        let listed_tools = self.listed_tools(key.0.unwrap_or(OPERATOR), server);
        let mut servers = self.lock();
        // It may just have been removed.
        let Some(running) = servers.get_mut(key) else { return };
        running.retain_listed(&listed_tools);
        for changed in listed_tools.iter().filter(|tool| tool.standing == ToolStanding::Changed) {
            let tool = tool_name(&key.1, &changed.definition.name);
            if running.logged.insert(changed.definition.hash().to_owned()) {
                tracing::warn!(tool, "an MCP server describes this tool otherwise now; it is off until approved");
            }
        }
    }

    /// The servers that a tenant may use, its own and the operator's, sorted by name. The tenant's own cannot hide the
    /// operator's.
    pub(super) fn usable_by(&self, tenant: TenantPk) -> Vec<Arc<Server>> {
        let servers = self.lock();
        let is_seen = |key: &ServerKey| match key.0 {
            None => true,
            Some(owner) => owner == tenant && !self.config.servers.contains_key(&key.1),
        };
        let mut seen: Vec<_> =
            servers.iter().filter(|(key, _)| is_seen(key)).map(|(_, running)| running.server.clone()).collect();
        seen.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
        seen
    }

    /// The tools that a server lists, with the status of each. Until the server has listed its tools, the approved
    /// definitions are used.
    pub(super) fn listed_tools(&self, tenant: TenantPk, server: &Arc<Server>) -> Vec<ListedTool> {
        let profile = &server.profile;
        let trusted = self.pins.trusted(tenant, profile.owner, &profile.name);
        let listed: Vec<Arc<Definition>> = match server.listed() {
            Some(listed) => listed.to_vec(),
            None => trusted.all(),
        };
        let chosen = chosen_of_each_name(profile, &listed, &trusted);
        let tool = |(place, definition): (usize, Arc<Definition>)| {
            let standing = match trusted.get(&definition.name) {
                _ if !definition.is_allowed(&profile.settings) => ToolStanding::Denied,
                _ if !chosen.contains(&place) => ToolStanding::Shadowed,
                _ if definition.refused.is_some() => ToolStanding::Refused,
                Some(known) if *known == *definition => ToolStanding::Offered,
                Some(_) | None => ToolStanding::Changed,
            };
            ListedTool { definition, standing }
        };
        listed.into_iter().enumerate().map(tool).collect()
    }

    /// Whether the tenant disabled this server of the operator for itself.
    pub(super) fn is_disabled(&self, tenant: TenantPk, server: &Server) -> bool {
        let own = self.documents.get(tenant, DocumentKind::McpServer, &server.profile.name);
        server.profile.owner.is_none()
            && own.and_then(|own| ServerToggle::of(&own)).is_some_and(|switch| !switch.enabled)
    }

    /// The servers that are disabled for all who might use them, so that they are not running.
    fn disabled_servers(&self, tenant: TenantPk) -> Vec<String> {
        let configured = self.config.servers.iter().filter(|(_, server)| !server.enabled);
        let mut names: Vec<String> = configured.map(|(name, _)| name.clone()).collect();
        for document in self.documents.of(tenant, DocumentKind::McpServer) {
            if let Ok(Some(endpoint)) = Endpoint::of(&document)
                && !endpoint.enabled
            {
                names.push(endpoint.name);
            }
        }
        names
    }

    /// The tool for this server and definition; the same `Arc` as long as both are unchanged.
    fn tool(&self, server: &Arc<Server>, definition: Arc<Definition>) -> Arc<ProxyTool> {
        let key: ServerKey = (server.profile.owner, server.profile.name.to_string());
        let make = || Arc::new(ProxyTool::new(server.clone(), definition.clone()));
        let mut servers = self.lock();
        // It may just have been removed.
        let Some(running) = servers.get_mut(&key) else { return make() };
        match running.tools.get(&definition.name) {
            Some(tool) if tool.is_of(server, &definition) => tool.clone(),
            Some(_) | None => {
                let tool = make();
                running.tools.insert(definition.name.clone(), tool.clone());
                tool
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerKey, RunningServer>> {
        self.servers.lock()
    }
}

/// Of the allowed tools that would be offered under one name, the places of those that may be: the trusted one, else the
/// first. So a server cannot put another tool in the place of a trusted one by spelling its name otherwise.
fn chosen_of_each_name(profile: &Profile, listed: &[Arc<Definition>], trusted: &TrustedTools) -> BTreeSet<usize> {
    let mut chosen = BTreeMap::<String, (TrustedFor, usize)>::new();
    let allowed = listed.iter().enumerate().filter(|(_, definition)| definition.is_allowed(&profile.settings));
    for (place, definition) in allowed {
        let candidate = (trusted.trusted_for(&definition.name), place);
        let best = chosen.entry(tool_name(&profile.name, &definition.name)).or_insert(candidate);
        *best = candidate.min(*best);
    }
    chosen.into_values().map(|(_, place)| place).collect()
}

impl ToolSource for Catalog {
    fn generation(&self, tenant: TenantPk) -> u64 {
        let own = [DocumentKind::McpServer, DocumentKind::McpTools].map(|kind| self.documents.changes_of(tenant, kind));
        let for_all = self.documents.changes_of(OPERATOR, DocumentKind::McpTools);
        own.into_iter().fold(self.changes.of_tenant(tenant).wrapping_add(for_all), u64::wrapping_add)
    }

    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in self.usable_by(tenant).into_iter().filter(|server| !self.is_disabled(tenant, server)) {
            let listed_tools = self.listed_tools(tenant, &server);
            let offered = listed_tools.into_iter().filter(|tool| tool.standing == ToolStanding::Offered);
            tools.extend(offered.map(|tool| self.tool(&server, tool.definition) as Arc<dyn Tool>));
        }
        tools.into()
    }

    fn off(&self, tenant: TenantPk) -> Vec<OffTool> {
        let mut off: Vec<OffTool> = self.disabled_servers(tenant).iter().map(|name| off_server(name)).collect();
        for server in self.usable_by(tenant) {
            if self.is_disabled(tenant, &server) {
                off.push(off_server(&server.profile.name));
                continue;
            }
            let listed_tools = self.listed_tools(tenant, &server);
            // A shadowed tool has the name of another, of which it is told whether it is off.
            let off_tools = listed_tools.iter().filter(|tool| tool.standing != ToolStanding::Shadowed);
            off.extend(off_tools.filter_map(|tool| {
                let name = tool_name(&server.profile.name, &tool.definition.name);
                Some(OffTool { name, why: tool.why_off()? })
            }));
        }
        off
    }
}

fn off_server(name: &str) -> OffTool {
    OffTool { name: tool_name(name, "") + "*", why: format!("its MCP server `{name}` is disabled") }
}
