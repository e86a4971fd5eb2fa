//! Where tools come from: the MCP servers of the configuration, which a tenant can switch off for itself, and its own.

use serde_json::{Map, Value, json};

use super::{Collection, Draft, Resource, Versioned};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::mcp::{self, Endpoint, ServerView};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind};

/// MCP servers, by name. What is shown tells how a server does, so a change is answered as the server stands after it.
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

    /// The operator's, which no tenant has switched yet.
    fn unwritten(service: &Service, name: &str) -> Option<Value> {
        service.mcp.is_configured(name).then(|| json!({}))
    }

    fn changed(service: &Service, caller: &Caller, known: &Document, spec: Endpoint) -> Result<Value> {
        service.mcp.changed(caller, known, spec)
    }

    /// Of the operator's servers only `enabled`, for this tenant.
    fn patched(service: &Service, caller: &Caller, known: &Document, patch: Map<String, Value>) -> Result<Value> {
        service.mcp.patched(caller, known, patch)
    }

    fn written(service: &Service, caller: &Caller, document: &Document) -> Result<ServerView> {
        service.mcp.bring_in_line();
        service.mcp.show(caller, &document.id)
    }

    /// A new one is reached in the background.
    async fn follow_up(service: &Service, _: &Caller, _: &str) {
        service.mcp.bring_in_line();
    }
}

impl Collection for McpServers {
    fn id(view: &ServerView) -> &str {
        &view.name
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<ServerView>> {
        Ok(service.mcp.list(caller))
    }

    fn draft(service: &Service, caller: &Caller, spec: Endpoint) -> Result<Draft<ServerView>> {
        service.mcp.check_new(caller, &spec)?;
        Ok(Draft { id: spec.name.clone(), body: spec.stored(), view: ServerView::new(&spec) })
    }

    fn taken() -> Fault {
        mcp::exists()
    }

    fn check_removal(service: &Service, name: &str) -> Result<()> {
        if service.mcp.is_configured(name) {
            let why = "The operator's servers stand in the configuration; switch it off with PATCH.";
            return Err(Fault::new(Code::Forbidden, why));
        }
        Ok(())
    }

    /// What was approved of it is forgotten.
    async fn removed(service: &Service, caller: &Caller, name: &str) -> Result<()> {
        Ok(service.mcp.forget(caller, name).await?)
    }
}

/// Trusts what a server says of a tool now; if `hash` says what that was, only that.
pub async fn approve_tool(
    service: &Service,
    caller: &Caller,
    name: &str,
    tool: &str,
    hash: Option<&str>,
) -> Result<ServerView> {
    service.mcp.approve(caller, name, tool, hash).await
}
