//! Writing what tenants configure: the same for every kind.

use serde_json::{Map, Value};

use super::{Collection, Draft, Resource, Versioned};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::typed::typed;
use crate::service::if_match::IfMatch;
use crate::service::once::{self, Answered, Idempotent};
use crate::service::{Result, Service};
use crate::store::documents::{Change, Document, DocumentKind, Expected};
use crate::tool::Toolset;

/// Creates a resource, unless the tenant has the maximum number of its kind.
pub async fn create<R: Collection>(
    service: &Service,
    caller: &Caller,
    spec: R::Spec,
    key: Option<Idempotent>,
) -> Result<Answered<R::View>> {
    service.runtime.accepting()?;
    let work = async {
        let tools = service.tools.toolset(caller.tenant).await;
        let Draft { id, body, view } = R::draft(service, caller, &tools, spec)?;
        let most = service.config.limits.documents;
        let stored_response = key.as_ref().map(|key| once::sealed(service, caller, key, 201, &view)).transpose()?;
        let change = change_by(service, caller, R::KIND, &id, Some(body));
        if service.documents.write_once(change, Expected::AbsentBelow(most), stored_response).await?.is_none() {
            // The refused write has refreshed the cache.
            let is_taken = service.documents.get(caller.tenant, R::KIND, &id).is_some();
            let why = if is_taken { R::id_taken() } else { too_many(R::KIND, most) };
            return Err(why.into());
        }
        R::follow_up(service, caller, &id).await;
        Ok(view)
    };
    once::perform(service, caller, key.as_ref(), work).await
}

fn too_many(kind: DocumentKind, most: usize) -> Fault {
    let kind = kind.as_str();
    let detail = format!(
        "This tenant has {most} documents of the kind `{kind}`, as many as `limits.documents` allows; remove one first."
    );
    Fault::new(Code::TooManyDocuments, detail)
}

/// Replaces a resource.
pub async fn put<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    spec: R::Spec,
    if_match: &IfMatch,
    key: Option<Idempotent>,
) -> Result<Answered<Versioned<R::View>>> {
    change::<R>(service, caller, id, if_match, key, |tools, known| {
        R::replaced_body(service, caller, tools, known, spec)
    })
    .await
}

/// Changes a resource by a merge patch (RFC 7386).
pub async fn patch<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    patch: Map<String, Value>,
    if_match: &IfMatch,
    key: Option<Idempotent>,
) -> Result<Answered<Versioned<R::View>>> {
    change::<R>(service, caller, id, if_match, key, |tools, known| {
        R::patched_body(service, caller, tools, known, patch)
    })
    .await
}

async fn change<R: Resource>(
    service: &Service,
    caller: &Caller,
    id: &str,
    if_match: &IfMatch,
    key: Option<Idempotent>,
    body: impl FnOnce(&Toolset, &Document) -> Result<Value>,
) -> Result<Answered<Versioned<R::View>>> {
    service.runtime.accepting()?;
    R::check_change(service, caller, id)?;
    let work = async {
        let known = stored::<R>(service, caller, id).await?;
        let expected = if known.version == 0 { Expected::Absent } else { Expected::Version(known.version) };
        if let (None, Some(why), Expected::Version(_)) = (if_match.against(known.version)?, R::NEEDS_MATCH, expected) {
            return Err(Fault::new(Code::PreconditionRequired, why).into());
        }
        let tools = service.tools.toolset(caller.tenant).await;
        let former = known.body.clone();
        let body = body(&tools, &known)?;
        check_growth(service.config.limits.body_bytes, former.as_ref(), &body)?;
        let mut next = Document { body: Some(body), ..known };
        let answer = match &key {
            Some(_) => Some(R::view_of(service, caller, &next)?),
            None => None,
        };
        let stored_response = key.as_ref().zip(answer.as_ref());
        let stored_response =
            stored_response.map(|(key, answer)| once::sealed(service, caller, key, 200, answer)).transpose()?;
        let change = Change { former, ..change_by(service, caller, R::KIND, id, next.body.clone()) };
        let Some(version) = service.documents.write_once(change, expected, stored_response).await? else {
            return Err(Fault::new(Code::PreconditionFailed, R::CONFLICT).into());
        };
        next.version = version;
        let value = match answer {
            Some(answer) => answer,
            None => R::view_of(service, caller, &next)?,
        };
        R::follow_up(service, caller, id).await;
        Ok(Versioned { value, version })
    };
    once::perform(service, caller, key.as_ref(), work).await
}

/// Refuses a document that grows beyond the size that one request may have: patches add to each other.
fn check_growth(most: usize, before: Option<&Value>, after: &Value) -> Result<()> {
    let bytes = |body: &Value| body.to_string().len();
    let grown = bytes(after);
    if grown <= most || before.is_some_and(|before| grown <= bytes(before)) {
        return Ok(());
    }
    let detail = format!("It may take {most} bytes as JSON, as `limits.body_bytes` allows; it would take {grown}.");
    Err(Fault::new(Code::Invalid, detail.clone()).at("", detail))
}

/// Deletes a resource of the tenant's own.
pub async fn delete<R: Collection>(service: &Service, caller: &Caller, id: &str) -> Result<()> {
    service.runtime.accepting()?;
    R::check_removal(service, caller, id)?;
    let change = change_by(service, caller, R::KIND, id, None);
    if service.documents.write(change, Expected::Any).await?.is_none() {
        return Err(Fault::not_found(R::NAME));
    }
    R::after_removal(service, caller, id).await
}

/// Reads the document from the store, because this process's cache may be stale.
async fn stored<R: Resource>(service: &Service, caller: &Caller, id: &str) -> Result<Document> {
    let stored = service.store.document(caller.tenant, R::KIND, id).await?;
    let default = || {
        let body = Some(R::default_body(service, id)?);
        Some(Document { tenant: caller.tenant, kind: R::KIND, id: id.to_owned(), version: 0, updated_at: 0, body })
    };
    let stored = stored.filter(|document| document.body.is_some()).or_else(default);
    stored.ok_or_else(|| Fault::not_found(R::NAME))
}

/// A change by this caller, now. Without a `body` it deletes.
fn change_by(service: &Service, caller: &Caller, kind: DocumentKind, id: &str, body: Option<Value>) -> Change {
    let (id, by) = (id.to_owned(), caller.name.clone());
    Change { tenant: caller.tenant, kind, id, body, former: None, by, by_tenant: None, why: None, now: service.now() }
}

/// The specification of `known` after a merge patch.
pub(super) fn merged_spec<R: Resource>(known: &Document, patch: Map<String, Value>) -> Result<R::Spec> {
    let mut spec = R::as_spec(known)?;
    json_patch::merge(&mut spec, &Value::Object(patch));
    typed(spec)
}

/// The fault for an invalid member of a specification.
pub(super) fn wrong(member: &str, why: String) -> Fault {
    Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
}
