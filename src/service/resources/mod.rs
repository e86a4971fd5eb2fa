//! What tenants configure. Each kind says what is special about it, by [`Resource`] and [`Collection`]; what is the same
//! for all of them is here: how many a tenant may have, idempotency, preconditions, merge patches, the audit.
//!
//! A change is made if nobody else was faster. It is seen here at once and by other processes within two seconds, and it
//! is a line of the tenant's audit, written in the same transaction.

mod http_tools;
mod mcp_servers;
mod remote_agents;
mod webhooks;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::if_match::IfMatch;
use super::once::{self, Answered, Idempotent};
use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::typed::typed;
use crate::runtime::Refusal;
use crate::store::document::{Change, Document, DocumentKind, Expected};

pub use http_tools::HttpTools;
pub use mcp_servers::{McpServers, approve_tool};
pub use remote_agents::RemoteAgents;
pub use webhooks::{Webhooks, deliveries, replay};

/// A kind of thing that tenants configure.
pub trait Resource: Sized {
    const KIND: DocumentKind;
    /// As a fault names it.
    const NAME: &'static str;
    /// What is said where another change was faster.
    const CONFLICT: &'static str = "Somebody else changed it at the same time; look again.";
    /// What a change without `If-Match` is told, where it needs one.
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

    /// What is done once it is made or changed; nobody is told if that fails.
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

/// Makes one, unless the tenant has as many as it may.
pub async fn create<R: Collection>(
    service: &Service,
    caller: &Caller,
    spec: R::Spec,
    key: Option<Idempotent>,
) -> Result<Answered<R::View>> {
    service.runtime.accepting()?;
    let work = async {
        let Draft { id, body, view } = R::draft(service, caller, spec)?;
        let most = service.config.limits.documents;
        if service.documents.of(caller.tenant, R::KIND).len() >= most {
            let detail = format!("This tenant has {most} of these, and may have no more; remove one first.");
            return Err(Fault::new(Code::TooManyDocuments, detail).into());
        }
        let kept = key.as_ref().map(|key| once::sealed(service, caller, key, 201, &view)).transpose()?;
        let change = change_by(service, caller, R::KIND, &id, Some(body));
        if service.documents.write_once(change, Expected::Absent, kept).await?.is_none() {
            return Err(not_first(service, caller, &key, R::taken()).await?);
        }
        R::follow_up(service, caller, &id).await;
        Ok(view)
    };
    once::perform(service, caller, key.as_ref(), work).await
}

/// Replaces one.
pub async fn put<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    spec: R::Spec,
    on: &IfMatch,
    key: Option<Idempotent>,
) -> Result<Answered<Versioned<R::View>>> {
    change::<R>(service, caller, id, on, key, |known| R::changed(service, caller, known, spec)).await
}

/// Changes one by a merge patch (RFC 7386).
pub async fn patch<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    patch: Map<String, Value>,
    on: &IfMatch,
    key: Option<Idempotent>,
) -> Result<Answered<Versioned<R::View>>> {
    change::<R>(service, caller, id, on, key, |known| R::patched(service, caller, known, patch)).await
}

async fn change<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    on: &IfMatch,
    key: Option<Idempotent>,
    body: impl FnOnce(&Document) -> Result<Value>,
) -> Result<Answered<Versioned<R::View>>> {
    service.runtime.accepting()?;
    let work = async {
        let known = stored::<R>(service, caller, id).await?;
        let expected = if known.version == 0 { Expected::Absent } else { Expected::Version(known.version) };
        if let (None, Some(why), Expected::Version(_)) = (on.against(known.version)?, R::NEEDS_MATCH, expected) {
            return Err(Fault::new(Code::PreconditionRequired, why).into());
        }
        let mut next = Document { body: Some(body(&known)?), ..known };
        let answer = match &key {
            Some(_) => Some(R::written(service, caller, &next)?),
            None => None,
        };
        let kept = key.as_ref().zip(answer.as_ref());
        let kept = kept.map(|(key, answer)| once::sealed(service, caller, key, 200, answer)).transpose()?;
        let change = change_by(service, caller, R::KIND, id, next.body.clone());
        let Some(version) = service.documents.write_once(change, expected, kept).await? else {
            return Err(not_first(service, caller, &key, Fault::new(Code::PreconditionFailed, R::CONFLICT)).await?);
        };
        next.version = version;
        let value = match answer {
            Some(answer) => answer,
            None => R::written(service, caller, &next)?,
        };
        R::follow_up(service, caller, id).await;
        Ok(Versioned { value, version })
    };
    once::perform(service, caller, key.as_ref(), work).await
}

/// Removes one of the tenant's own.
pub async fn delete<R: Collection>(service: &Service, caller: &Caller, id: &str) -> Result<()> {
    service.runtime.accepting()?;
    R::check_removal(service, id)?;
    let change = change_by(service, caller, R::KIND, id, None);
    if service.documents.write(change, Expected::Any).await?.is_none() {
        return Err(Fault::not_found(R::NAME));
    }
    R::removed(service, caller, id).await
}

/// As it is stored now, whatever this process has seen of it.
async fn stored<R: Resource>(service: &Service, caller: &Caller, id: &str) -> Result<Document> {
    let stored = service.store.document(caller.tenant, R::KIND, id).await?;
    let unwritten = || {
        let body = Some(R::unwritten(service, id)?);
        Some(Document { tenant: caller.tenant, kind: R::KIND, id: id.to_owned(), version: 0, updated_at: 0, body })
    };
    let stored = stored.filter(|document| document.body.is_some()).or_else(unwritten);
    stored.ok_or_else(|| Fault::not_found(R::NAME))
}

/// A change by this caller, now. No `body` deletes.
fn change_by(service: &Service, caller: &Caller, kind: DocumentKind, id: &str, body: Option<Value>) -> Change {
    let (id, by) = (id.to_owned(), caller.name.clone());
    Change { tenant: caller.tenant, kind, id, body, by, now: service.now() }
}

/// Why a write did nothing: the same request was answered elsewhere, or else what `otherwise` says.
async fn not_first(service: &Service, caller: &Caller, key: &Option<Idempotent>, otherwise: Fault) -> Result<Refusal> {
    match key {
        Some(key) if once::is_stored(service, caller, key).await? => Ok(Refusal::Duplicate),
        Some(_) | None => Ok(otherwise.into()),
    }
}

/// The specification after a merge patch of what is known.
fn merged<R: Resource>(known: &Document, patch: Map<String, Value>) -> Result<R::Spec> {
    let mut spec = R::sent(known)?;
    json_patch::merge(&mut spec, &Value::Object(patch));
    typed(spec)
}

/// A member of a specification that cannot be.
fn wrong(member: &str, why: String) -> Fault {
    Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
}
