//! MCP servers: those of the configuration, which a tenant can switch off for itself, and the tenant's own.

use serde_json::{Map, Value, json};

use super::{Collection, Draft, Resource, Versioned};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::mcp::{self, Endpoint, ServerView};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind};
use crate::tool::Toolset;

/// MCP servers, by name. The view contains the server's health, so the response to a change shows it as of after the change.
pub struct McpServers;

impl Resource for McpServers {
    const KIND: DocumentKind = DocumentKind::McpServer;
    const NAME: &'static str = "MCP server";
    const CONFLICT: &'static str = "It was changed at the same time; read it again.";
    type Spec = Endpoint;
    type View = ServerView;

    async fn get(service: &Service, caller: &Caller, name: &str) -> Result<Versioned<ServerView>> {
        let document = service.documents.get(caller.tenant, Self::KIND, name);
        let version = document.map_or(0, |document| document.version);
        Ok(Versioned { value: service.mcp.show(caller, name)?, version })
    }

    /// A server of the configuration, for which the tenant has stored nothing yet.
    fn default_body(service: &Service, name: &str) -> Option<Value> {
        service.mcp.is_configured(name).then(|| json!({}))
    }

    fn replaced_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        spec: Endpoint,
    ) -> Result<Value> {
        service.mcp.replaced_body(caller, known, spec)
    }

    /// Of a server of the configuration only `enabled` can be changed, for this tenant.
    fn patched_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        patch: Map<String, Value>,
    ) -> Result<Value> {
        service.mcp.patched_body(caller, known, patch)
    }

    fn view_of(service: &Service, caller: &Caller, document: &Document) -> Result<ServerView> {
        service.mcp.reconcile();
        service.mcp.show(caller, &document.id)
    }

    /// A new server is connected in the background.
    async fn follow_up(service: &Service, _: &Caller, _: &str) {
        service.mcp.reconcile();
    }
}

impl Collection for McpServers {
    fn id(view: &ServerView) -> &str {
        &view.name
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<ServerView>> {
        Ok(service.mcp.list(caller))
    }

    fn draft(service: &Service, caller: &Caller, _: &Toolset, spec: Endpoint) -> Result<Draft<ServerView>> {
        service.mcp.check_new(caller, &spec)?;
        Ok(Draft { id: spec.name.clone(), body: spec.stored(), view: ServerView::new(&spec) })
    }

    fn id_taken() -> Fault {
        mcp::name_taken()
    }

    fn check_removal(service: &Service, _: &Caller, name: &str) -> Result<()> {
        if service.mcp.is_configured(name) {
            let why = "The operator's servers stand in the configuration; switch it off with PATCH.";
            return Err(Fault::new(Code::Forbidden, why));
        }
        Ok(())
    }

    /// Deletes the approvals of the server's tools.
    async fn after_removal(service: &Service, caller: &Caller, name: &str) -> Result<()> {
        Ok(service.mcp.forget(caller, name).await?)
    }
}

/// Approves the current description of a server's tool. If `hash` is given, only if it is the hash of that description.
pub async fn approve_tool(
    service: &Service,
    caller: &Caller,
    name: &str,
    tool: &str,
    hash: Option<&str>,
) -> Result<ServerView> {
    service.mcp.approve(caller, name, tool, hash).await
}
