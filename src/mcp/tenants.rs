//! A tenant's own MCP servers: adding, changing and removing them, and enabling or disabling the operator's servers for
//! the tenant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::catalog::Catalog;
use crate::config::mcp::check_name;
use crate::config::{McpServer, Reference};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::tool::ToolClass;
use crate::store;
use crate::store::documents::{Document, Illegible};
use crate::tool::policy;

/// An endpoint that a tenant adds: the body of `POST /mcp-servers`, and what is stored. Programs stand in the operator's
/// configuration alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewMcpServer)]
pub struct Endpoint {
    /// The first part of its tools' names.
    pub name: String,
    /// Where it speaks streamable HTTP.
    pub url: String,
    /// References only, to variables that the operator provides: `env:NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub headers: BTreeMap<String, Reference>,
    #[serde(default = "default_enabled")]
    pub enabled: bool,
    /// How long one call may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u32,
    /// Only these of its tools: names or globs; empty = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Overrides the class that the server claims for a tool, by name or glob.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub class: BTreeMap<String, ToolClass>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub idempotent: BTreeMap<String, bool>,
}

fn default_enabled() -> bool {
    true
}

fn default_timeout_ms() -> u32 {
    McpServer::default().timeout_ms
}

/// The document of an operator's server that a tenant enabled or disabled for itself.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerToggle {
    pub enabled: bool,
}

impl ServerToggle {
    /// `None`: the document describes a server of the tenant.
    pub(super) fn of(document: &Document) -> Option<Self> {
        Self::deserialize(document.body.as_ref()?).ok()
    }
}

type Result<T> = std::result::Result<T, Fault>;

impl Endpoint {
    /// The endpoint that a tenant's document describes; `None`: it only enables or disables an operator's server.
    pub(super) fn of(document: &Document) -> std::result::Result<Option<Self>, Illegible> {
        if ServerToggle::of(document).is_some() {
            return Ok(None);
        }
        document.legible().map(Some)
    }

    pub(super) fn settings(self) -> McpServer {
        McpServer {
            url: Some(self.url),
            headers: self.headers,
            enabled: self.enabled,
            timeout_ms: self.timeout_ms,
            allow: self.allow,
            deny: self.deny,
            class: self.class,
            idempotent: self.idempotent,
            ..McpServer::default()
        }
    }

    /// The stored form.
    pub fn stored(&self) -> Value {
        serde_json::to_value(self).expect("settings are texts, numbers and flags")
    }
}

impl Catalog {
    /// Whether the operator's configuration has a server of this name. Tenants can only enable or disable it.
    pub fn is_configured(&self, name: &str) -> bool {
        self.config.servers.contains_key(name)
    }

    /// Checks whether the caller's tenant may add this endpoint.
    pub fn check_new(&self, caller: &Caller, new: &Endpoint) -> Result<()> {
        check_name(&new.name).map_err(|why| invalid("/name", why))?;
        self.check(caller, new)?;
        if self.is_configured(&new.name) {
            return Err(name_taken());
        }
        Ok(())
    }

    /// The new body of the document when a tenant replaces a server.
    pub fn replaced_body(&self, caller: &Caller, known: &Document, endpoint: Endpoint) -> Result<Value> {
        if endpoint.name != known.id {
            return Err(invalid("/name", "a server keeps its name".to_owned()));
        }
        if self.is_configured(&known.id) {
            return Err(name_taken());
        }
        self.check(caller, &endpoint)?;
        Ok(endpoint.stored())
    }

    /// The new body of the document after a merge patch. Of the operator's servers only `enabled` changes, for this
    /// tenant.
    pub fn patched_body(&self, caller: &Caller, known: &Document, patch: Map<String, Value>) -> Result<Value> {
        if self.is_configured(&known.id) {
            return toggle(&patch);
        }
        let unreadable = |why| Fault::new(Code::Internal, format!("Of this MCP server, {why}."));
        let endpoint = Endpoint::of(known).map_err(unreadable)?;
        let mut body = endpoint.ok_or_else(|| Fault::not_found("MCP server"))?.stored();
        json_patch::merge(&mut body, &Value::Object(patch));
        let endpoint: Endpoint =
            serde_json::from_value(body).map_err(|error| invalid("", format!("This is no MCP server: {error}")))?;
        self.replaced_body(caller, known, endpoint)
    }

    /// Stops a server that the caller's tenant removed, and deletes its approvals.
    pub async fn forget(&self, caller: &Caller, name: &str) -> store::Result<()> {
        self.reconcile();
        self.pins.delete(caller.tenant, name, &caller.name, (self.now)()).await
    }

    fn check(&self, caller: &Caller, endpoint: &Endpoint) -> Result<()> {
        self.egress.tenant_destination(caller.tenant, &endpoint.url).map_err(|why| invalid("/url", why))?;
        endpoint.clone().settings().check().map_err(|why| invalid("", why))?;
        for (header, value) in &endpoint.headers {
            self.check_reference(value).map_err(|why| invalid(&format!("/headers/{header}"), why))?;
        }
        Ok(())
    }

    /// Tenants store no secrets here: they can only refer to variables that the operator provides for them.
    fn check_reference(&self, value: &Reference) -> std::result::Result<(), String> {
        let is_lent = |name: &str| self.config.tenant_env.iter().any(|glob| policy::matches(glob, name));
        match value {
            Reference::Env(name) if is_lent(name) => Ok(()),
            Reference::Env(name) => Err(format!("`{name}` is not among the operator's mcp.tenant_env")),
            Reference::File(_) => Err("files of the server cannot be referred to".to_owned()),
            Reference::Plain(_) => Err("a value is not stored here; refer to one: `env:NAME`".to_owned()),
        }
    }
}

fn toggle(patch: &Map<String, Value>) -> Result<Value> {
    match (patch.len(), patch.get("enabled").and_then(Value::as_bool)) {
        (1, Some(enabled)) => Ok(json!(ServerToggle { enabled })),
        _ => Err(invalid("", "of the operator's servers only `enabled` can be changed".to_owned())),
    }
}

fn invalid(pointer: &str, why: String) -> Fault {
    Fault::new(Code::Invalid, "This MCP server cannot be used.").at(pointer, why)
}

/// The fault if a new server's name is taken.
pub fn name_taken() -> Fault {
    Fault::new(Code::ServerExists, "There is an MCP server of this name.")
}
