//! What tenants configure. Each kind implements [`Resource`] and [`Collection`]. What is the same for all kinds is done by
//! [`create`], [`put`], [`patch`] and [`delete`]: the number that a tenant may have, idempotency, preconditions, merge
//! patches, the audit.
//!
//! A change is made unless another one was faster. This process sees it at once, others within two seconds. It writes a line
//! to the tenant's audit in the same transaction.

mod http_tools;
mod mcp_servers;
mod remote_agents;
mod schedules;
mod webhooks;
mod write;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::store::documents::{Document, DocumentKind};
use crate::tool::Toolset;

/// What is shown of MCP servers and of their tools.
pub mod mcp_view {
    pub use crate::mcp::{DefinitionView, Endpoint, Health, Origin, ServerView, ToolStanding, ToolView};
}
pub use http_tools::HttpTools;
pub use mcp_servers::{McpServers, approve_tool};
pub use remote_agents::RemoteAgents;
pub use schedules::Schedules;
pub use webhooks::{Webhooks, all_deliveries, deliveries, replay};
pub use write::{create, delete, patch, put};

use write::{merged_spec, wrong};

/// A kind of thing that tenants configure.
pub trait Resource: Sized {
    const KIND: DocumentKind;
    /// The name of the kind in faults.
    const NAME: &'static str;
    /// The detail of the fault if another change was faster.
    const CONFLICT: &'static str = "Somebody else changed it at the same time; look again.";
    /// The detail of the fault for a change without `If-Match`, if the kind requires one.
    const NEEDS_MATCH: Option<&'static str> = None;
    /// The body of POST and PUT.
    type Spec: DeserializeOwned + Send;
    /// The representation in responses.
    type View: Serialize + Send;

    /// Returns one resource of the caller's tenant, with the version of its document; 0: none is stored.
    fn get(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = Result<Versioned<Self::View>>> + Send;

    /// The body to which a change applies if none is stored. `None`: the resource does not exist.
    fn default_body(service: &Service, id: &str) -> Option<Value> {
        let _ = (service, id);
        None
    }

    /// Called before a resource is replaced or patched.
    fn check_change(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        let _ = (service, caller, id);
        Ok(())
    }

    /// The body that replaces `known`. Secrets that the specification omits are kept. `tools` are those of the tenant.
    fn replaced_body(
        service: &Service,
        caller: &Caller,
        tools: &Toolset,
        known: &Document,
        spec: Self::Spec,
    ) -> Result<Value>;

    /// `known` as its specification, without secrets. A merge patch applies to this.
    fn as_spec(known: &Document) -> Result<Value> {
        Ok(known.without_secrets())
    }

    /// The body after a merge patch.
    fn patched_body(
        service: &Service,
        caller: &Caller,
        tools: &Toolset,
        known: &Document,
        patch: Map<String, Value>,
    ) -> Result<Value> {
        Self::replaced_body(service, caller, tools, known, merged_spec::<Self>(known, patch)?)
    }

    /// The representation of a written document. With an `Idempotency-Key` it is made before the write, which stores it as
    /// the response; without one after the write.
    fn view_of(service: &Service, caller: &Caller, document: &Document) -> Result<Self::View>;

    /// Called after a resource was created or changed. An error is not reported to the caller.
    fn follow_up(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = ()> + Send {
        let _ = (service, caller, id);
        async {}
    }
}

/// A kind of which a tenant may have many.
pub trait Collection: Resource {
    fn id(view: &Self::View) -> &str;

    /// All resources of the tenant: those of the server's configuration, then its own, ordered by id.
    fn list(service: &Service, caller: &Caller) -> Result<Vec<Self::View>>;

    /// Checks a specification, and makes the document of a new resource. `tools` are those of the tenant.
    fn draft(service: &Service, caller: &Caller, tools: &Toolset, spec: Self::Spec) -> Result<Draft<Self::View>>;

    /// The fault if a resource with the new id exists.
    fn id_taken() -> Fault;

    fn check_removal(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        let _ = (service, caller, id);
        Ok(())
    }

    /// Called after a resource was deleted.
    fn after_removal(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = (service, caller, id);
        async { Ok(()) }
    }
}

/// A representation, and the version of the stored document, which is the `ETag`.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    pub value: T,
    pub version: i64,
}

/// A new resource before it is stored.
pub struct Draft<T> {
    pub(super) id: String,
    pub(super) body: Value,
    /// The response. It may contain a secret that is never shown again.
    pub(super) view: T,
}
