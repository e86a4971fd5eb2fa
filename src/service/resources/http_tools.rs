//! What a tenant's administrators do with HTTP tools.

use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::http_tool::{HttpToolResource, HttpToolSpec};
use crate::egress::{Destination, SigningSecret};
use crate::service::once::{Answered, Idempotent};
use crate::service::{Result, Service, resources};
use crate::store::document::{Change, Document, DocumentKind, owner_of_document};
use crate::tool::Toolset;

/// In order of their names; without secrets.
pub fn list(service: &Service, caller: &Caller) -> Result<Vec<HttpToolResource>> {
    let documents = service.documents.of(caller.tenant, DocumentKind::HttpTool);
    documents.iter().map(|document| shown(service, document)).collect()
}

pub fn get(service: &Service, caller: &Caller, name: &str) -> Result<HttpToolResource> {
    let document = service.documents.one(caller.tenant, DocumentKind::HttpTool, name);
    shown(service, &*document.ok_or_else(|| Fault::not_found("HTTP tool"))?)
}

/// Without a secret it gets one, which the answer shows.
pub async fn create(
    service: &Service,
    caller: &Caller,
    spec: HttpToolSpec,
    key: Option<Idempotent>,
) -> Result<Answered<HttpToolResource>> {
    let taken = Fault::new(Code::PreconditionFailed, "Somebody else just made a tool of this name; look again.");
    resources::create(service, caller, key, taken, || {
        service.tools.toolset(caller.tenant).check_new(&spec.spec())?;
        let made = match &spec.secret {
            Some(_) => None,
            None => Some(SigningSecret::random().map_err(|why| Fault::new(Code::Internal, why))?),
        };
        let secret = spec.secret.clone().or_else(|| made.clone());
        let change = http_tool_change(service, caller, HttpToolSpec { secret, ..spec.clone() }, None)?;
        Ok((change, HttpToolResource::of(spec, made, None)))
    })
    .await
}

/// Without a secret it keeps its own.
pub async fn put(service: &Service, caller: &Caller, name: &str, spec: HttpToolSpec) -> Result<HttpToolResource> {
    let known = service.documents.one(caller.tenant, DocumentKind::HttpTool, name);
    let known = known.ok_or_else(|| Fault::not_found("HTTP tool"))?;
    if spec.name != name {
        return Err(Fault::new(Code::Invalid, "A tool keeps its name.").at("/name", "is not the one in the path"));
    }
    Toolset::check_changed(&spec.spec())?;
    let sealed = known.body.as_ref().and_then(|body| body["secret"].as_str()).map(str::to_owned);
    resources::replace(service, http_tool_change(service, caller, spec, sealed)?, known.version).await?;
    get(service, caller, name)
}

pub async fn delete(service: &Service, caller: &Caller, name: &str) -> Result<()> {
    resources::remove(service, resources::change(service, caller, DocumentKind::HttpTool, name, None), "HTTP tool")
        .await
}

/// `sealed` is kept where the specification brings no secret of its own.
fn http_tool_change(
    service: &Service,
    caller: &Caller,
    mut spec: HttpToolSpec,
    sealed: Option<String>,
) -> Result<Change> {
    let wrong = |member: &str, why: String| {
        Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
    };
    let url = spec.url.parse().map_err(|error| wrong("url", format!("this is no URL: {error}")))?;
    let to = Destination::Untrusted { url, tenant: caller.tenant };
    service.outbox.egress.judge(&to).map_err(|error| wrong("url", error.to_string()))?;
    if !(1..=LONGEST).contains(&spec.timeout_ms) {
        return Err(wrong("timeoutMs", format!("is 1 to {LONGEST}")));
    }
    spec.secret = match &spec.secret {
        Some(secret) => {
            SigningSecret::parse(secret).map_err(|why| wrong("secret", why))?;
            let owner = owner_of_document(caller.tenant, DocumentKind::HttpTool, &spec.name);
            Some(service.sealer.seal(secret, owner)?)
        }
        None => sealed,
    };
    let body = serde_json::to_value(&spec).map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
    Ok(resources::change(service, caller, DocumentKind::HttpTool, &spec.name, Some(body)))
}

fn shown(service: &Service, document: &Document) -> Result<HttpToolResource> {
    let body = document.body.clone().unwrap_or_default();
    let spec: HttpToolSpec = serde_json::from_value(body)
        .map_err(|_| Fault::new(Code::Internal, "What is stored of this tool cannot be read."))?;
    let secret_error = document.signing_secrets(&service.sealer).err().map(|why| why.to_string());
    Ok(HttpToolResource::of(spec, None, secret_error))
}

/// How long a call may take at most, in milliseconds.
const LONGEST: i64 = 600_000;
