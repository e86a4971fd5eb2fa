//! Listing MCP servers for a tenant, and approving a tool's definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::catalog::{Catalog, ListedTool};
use super::definition::Definition;
use super::server::{Health, Server};
use super::tenants::Endpoint;
use super::view::{DefinitionView, Origin, ServerView, ToolStanding, ToolView};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::store::documents::DocumentKind;

type Result<T> = std::result::Result<T, Fault>;

impl Catalog {
    /// Every server that the caller's agents may use, by name.
    pub fn list(&self, caller: &Caller) -> Vec<ServerView> {
        let mut views: Vec<ServerView> =
            self.usable_by(caller.tenant).iter().map(|server| self.view(caller, server)).collect();
        for document in self.documents.of(caller.tenant, DocumentKind::McpServer) {
            if views.iter().any(|view| view.name == document.id) {
                continue;
            }
            match Endpoint::of(&document) {
                Ok(Some(endpoint)) => {
                    views.push(ServerView::stopped(&document.id, Origin::Tenant, Some(endpoint.stored())));
                }
                Ok(None) => {}
                Err(why) => views.push(ServerView::illegible(&document.id, &why)),
            }
        }
        for (name, _) in self.config.servers.iter().filter(|(_, server)| !server.enabled) {
            views.push(ServerView::stopped(name, Origin::Config, None));
        }
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// One server, with what has changed in its tools. The list of all servers leaves that out, because it can be very
    /// long.
    pub fn show(&self, caller: &Caller, name: &str) -> Result<ServerView> {
        let found = self.list(caller).into_iter().find(|view| view.name == name);
        let mut view = found.ok_or_else(|| Fault::not_found("MCP server"))?;
        if let Some(server) = self.server(caller, name) {
            self.compare(caller, &server, &mut view.tools);
        }
        Ok(view)
    }

    /// Adds the approved and the current definition of each changed tool.
    fn compare(&self, caller: &Caller, server: &Server, tools: &mut [ToolView]) {
        let profile = &server.profile;
        let trusted = self.pins.trusted(caller.tenant, profile.owner, &profile.name);
        let listed = server.listed().unwrap_or_default();
        for tool in tools.iter_mut().filter(|tool| tool.standing == ToolStanding::Changed) {
            // The server may have listed its tools again in the meantime: the hash then differs, and the current
            // definition is left out.
            let is_it = |known: &&Arc<Definition>| known.name == tool.tool && known.hash() == tool.hash;
            tool.now = listed.iter().find(is_it).map(|known| DefinitionView::of(known));
            tool.approved = trusted.get(&tool.tool).map(DefinitionView::of);
        }
    }

    /// How many servers are down: of the operator's each, and of all tenants' together.
    pub fn down_servers(&self) -> Vec<(String, usize)> {
        let mut down = BTreeMap::<String, usize>::new();
        for server in self.running() {
            let is_down = server.state().health == Health::Down;
            *down.entry(server.profile.label()).or_default() += usize::from(is_down);
        }
        down.into_iter().collect()
    }

    /// The server of this name, if the caller's agents may use it.
    fn server(&self, caller: &Caller, name: &str) -> Option<Arc<Server>> {
        self.usable_by(caller.tenant).into_iter().find(|server| *server.profile.name == *name)
    }

    /// Approves the current definition of a tool for the caller's tenant; with `hash`, only if that is still its hash.
    pub async fn approve(&self, caller: &Caller, name: &str, tool: &str, hash: Option<&str>) -> Result<ServerView> {
        let server = self.server(caller, name).ok_or_else(|| Fault::not_found("MCP server"))?;
        let listed_tools = self.listed_tools(caller.tenant, &server);
        let found = listed_tools.into_iter().find(|listed| listed.definition.name == tool);
        let found = found.ok_or_else(|| Fault::not_found("tool"))?;
        if hash.is_some_and(|hash| hash != found.definition.hash()) {
            let why = "The server describes this tool otherwise by now; look at it again.";
            return Err(Fault::new(Code::ApprovalMismatch, why).with("hash", found.definition.hash()));
        }
        self.pins.approve(caller.tenant, name, &found.definition, &caller.name, (self.now)()).await?;
        self.show(caller, name)
    }

    fn view(&self, caller: &Caller, server: &Arc<Server>) -> ServerView {
        let (profile, state) = (&server.profile, server.state());
        let is_off = self.is_disabled(caller.tenant, server);
        let tool = |tool: ListedTool| {
            let spec = tool.definition.spec(&profile.name, &profile.settings, profile.owner.is_none());
            ToolView {
                name: spec.name,
                class: spec.class,
                idempotent: spec.idempotent,
                standing: tool.standing,
                reason: tool.why_off().filter(|_| tool.standing != ToolStanding::Changed),
                hash: tool.definition.hash().to_owned(),
                tool: tool.definition.name.clone(),
                approved: None,
                now: None,
            }
        };
        let origin = if profile.owner.is_some() { Origin::Tenant } else { Origin::Config };
        ServerView {
            health: if is_off { Health::Disabled } else { state.health },
            // Error messages of the operator's servers may contain the operator's secrets and folders.
            reason: state.why.filter(|_| profile.owner.is_some() || caller.may(Scope::Operator)),
            enabled: !is_off,
            protocol_version: state.protocol,
            restarts: state.restarts,
            has_more_tools: state.has_more,
            tools: self.listed_tools(caller.tenant, server).into_iter().map(tool).collect(),
            ..ServerView::stopped(&profile.name, origin, self.settings_of(server))
        }
    }

    /// The settings that a tenant wrote; the operator's are never returned.
    fn settings_of(&self, server: &Server) -> Option<Value> {
        let document = self.documents.get(server.profile.owner?, DocumentKind::McpServer, &server.profile.name)?;
        Endpoint::of(&document).ok()?.map(|endpoint| endpoint.stored())
    }
}
