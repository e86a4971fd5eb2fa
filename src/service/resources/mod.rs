//! What tenants configure: documents as administrators write them, made once per `Idempotency-Key`, replaced if nobody
//! else was faster.

pub mod http_tools;
pub mod mcp_servers;
pub mod remote_agents;
pub mod webhooks;

use serde::Serialize;
use serde_json::Value;

use super::once::{self, Answered, Idempotent};
use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::runtime::Refusal;
use crate::store::document::{Change, DocumentKind, Expected};

/// A change by this caller, now. No `body` deletes.
fn change(service: &Service, caller: &Caller, kind: DocumentKind, id: &str, body: Option<Value>) -> Change {
    let (id, by) = (id.to_owned(), caller.name.clone());
    Change { tenant: caller.tenant, kind, id, body, by, now: service.now() }
}

/// Makes a document, and answers with what is shown of it. `taken` is the fault if there is one of this id.
async fn create<T: Serialize>(
    service: &Service,
    caller: &Caller,
    key: Option<Idempotent>,
    taken: Fault,
    make: impl FnOnce() -> Result<(Change, T)>,
) -> Result<Answered<T>> {
    service.runtime.accepting()?;
    let work = async {
        let (change, shown) = make()?;
        let most = service.config.limits.documents;
        if service.documents.of(caller.tenant, change.kind).len() >= most {
            let detail = format!("This tenant has {most} of these, and may have no more; remove one first.");
            return Err(Fault::new(Code::TooManyDocuments, detail).into());
        }
        let kept = key.as_ref().map(|key| once::sealed(service, caller, key, 201, &shown)).transpose()?;
        if service.documents.write_once(change, Expected::Absent, kept).await?.is_some() {
            return Ok(shown);
        }
        match &key {
            Some(key) if service.store.idempotency(caller.tenant, &key.scope, &key.key).await?.is_some() => {
                Err(Refusal::Duplicate)
            }
            Some(_) | None => Err(taken.into()),
        }
    };
    once::perform(service, caller, key.as_ref(), work).await
}

/// Replaces the document that had this version.
async fn replace(service: &Service, change: Change, version: i64) -> Result<()> {
    match service.documents.write(change, Expected::Version(version)).await? {
        Some(_) => Ok(()),
        None => Err(Fault::new(Code::PreconditionFailed, "Somebody else changed it at the same time; look again.")),
    }
}

async fn remove(service: &Service, change: Change, what: &str) -> Result<()> {
    match service.documents.write(change, Expected::Any).await? {
        Some(_) => Ok(()),
        None => Err(Fault::not_found(what)),
    }
}
