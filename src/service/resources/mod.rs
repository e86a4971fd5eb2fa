//! What tenants configure. Each kind says what is special about it, by [`Resource`] and [`Collection`]. What is the same
//! for all of them is done once, by [`create`], [`put`], [`patch`] and [`delete`]: how many a tenant may have,
//! idempotency, preconditions, merge patches, the audit.
//!
//! A change is made if nobody else was faster. It is seen here at once and by other processes within two seconds, and it
//! is a line of the tenant's audit, written in the same transaction.

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

pub use http_tools::HttpTools;
pub use mcp_servers::{McpServers, approve_tool};
pub use remote_agents::RemoteAgents;
pub use schedules::Schedules;
pub use webhooks::{Webhooks, all_deliveries, deliveries, replay};
pub use write::{create, delete, patch, put};

use write::{merged, wrong};

/// A kind of thing that tenants configure.
pub trait Resource: Sized {
    const KIND: DocumentKind;
    /// As a fault names it.
    const NAME: &'static str;
    /// What is said where another change was faster.
    const CONFLICT: &'static str = "Somebody else changed it at the same time; look again.";
    /// The error of a change without `If-Match`, where it needs one.
    const NEEDS_MATCH: Option<&'static str> = None;
    /// The body of POST and PUT.
    type Spec: DeserializeOwned + Send;
    /// What is shown.
    type View: Serialize + Send;

    /// One that the caller's tenant has, with the version of what is stored of it; 0: nothing is.
    fn get(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = Result<Versioned<Self::View>>> + Send;

    /// What a change is made to where nothing is stored; `None`: there is nothing to change.
    fn unwritten(service: &Service, id: &str) -> Option<Value> {
        let _ = (service, id);
        None
    }

    /// The body that takes the place of what is `known`. Secrets that the specification does not bring stay.
    fn changed(service: &Service, caller: &Caller, known: &Document, spec: Self::Spec) -> Result<Value>;

    /// What is `known` as it was sent, without secrets: what a merge patch changes.
    fn sent(known: &Document) -> Result<Value> {
        Ok(known.without_secrets())
    }

    /// The body after a merge patch.
    fn patched(service: &Service, caller: &Caller, known: &Document, patch: Map<String, Value>) -> Result<Value> {
        Self::changed(service, caller, known, merged::<Self>(known, patch)?)
    }

    /// What is shown of it as it is written. With an `Idempotency-Key` this is asked before the write, with which the
    /// answer is stored; without one after it.
    fn written(service: &Service, caller: &Caller, document: &Document) -> Result<Self::View>;

    /// Called after it was created or changed; an error does not reach the caller.
    fn follow_up(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = ()> + Send {
        let _ = (service, caller, id);
        async {}
    }
}

/// A kind of which a tenant may have many.
pub trait Collection: Resource {
    fn id(view: &Self::View) -> &str;

    /// All that the tenant has: those of the server's configuration, and its own in the order of their ids.
    fn list(service: &Service, caller: &Caller) -> Result<Vec<Self::View>>;

    /// A new one.
    fn draft(service: &Service, caller: &Caller, spec: Self::Spec) -> Result<Draft<Self::View>>;

    /// The fault if there is one of the new one's id.
    fn taken() -> Fault;

    fn check_removal(service: &Service, id: &str) -> Result<()> {
        let _ = (service, id);
        Ok(())
    }

    /// What is done once it is gone.
    fn removed(service: &Service, caller: &Caller, id: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = (service, caller, id);
        async { Ok(()) }
    }
}

/// What is shown, and the version of what is stored: what an `ETag` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    pub value: T,
    pub version: i64,
}

/// Something new, before it is stored.
pub struct Draft<T> {
    pub(super) id: String,
    pub(super) body: Value,
    /// What the answer shows: perhaps a secret that is never shown again.
    pub(super) view: T,
}
