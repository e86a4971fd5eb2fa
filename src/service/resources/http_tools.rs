//! The HTTP tools of a tenant: its own services, which its agents call.

use serde_json::Value;

use super::{Collection, Draft, Resource, Versioned, wrong};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::http_tool::{HttpToolResource, HttpToolSpec};
use crate::egress::SigningSecret;
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind, owner_of_document};
use crate::tool::Toolset;

/// The longest timeout of a call, in milliseconds.
const MAX_TIMEOUT_MS: i64 = 600_000;

/// HTTP tools, by name.
pub struct HttpTools;

impl Resource for HttpTools {
    const KIND: DocumentKind = DocumentKind::HttpTool;
    const NAME: &'static str = "HTTP tool";
    type Spec = HttpToolSpec;
    type View = HttpToolResource;

    async fn get(service: &Service, caller: &Caller, name: &str) -> Result<Versioned<HttpToolResource>> {
        let document = service.documents.get(caller.tenant, Self::KIND, name);
        let document = document.ok_or_else(|| Fault::not_found(Self::NAME))?;
        Ok(Versioned { value: shown(service, &document), version: document.version })
    }

    fn replaced_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        spec: HttpToolSpec,
    ) -> Result<Value> {
        if spec.name != known.id {
            return Err(Fault::new(Code::Invalid, "A tool keeps its name.").at("/name", "is not the one in the path"));
        }
        Toolset::check_changed(&spec.spec())?;
        let sealed = known.kept_secrets().and_then(Value::as_str).map(str::to_owned);
        body(service, caller, spec, sealed)
    }

    fn view_of(service: &Service, _: &Caller, document: &Document) -> Result<HttpToolResource> {
        Ok(shown(service, document))
    }
}

impl Collection for HttpTools {
    fn id(view: &HttpToolResource) -> &str {
        &view.name
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<HttpToolResource>> {
        let documents = service.documents.of(caller.tenant, Self::KIND);
        Ok(documents.iter().map(|document| shown(service, document)).collect())
    }

    /// If the specification has no secret, a random one is generated; the response shows it.
    fn draft(
        service: &Service,
        caller: &Caller,
        tools: &Toolset,
        spec: HttpToolSpec,
    ) -> Result<Draft<HttpToolResource>> {
        tools.check_new(&spec.spec())?;
        let generated = match &spec.secret {
            Some(_) => None,
            None => Some(SigningSecret::random().map_err(|why| Fault::new(Code::Internal, why))?),
        };
        let secret = spec.secret.clone().or_else(|| generated.clone());
        let body = body(service, caller, HttpToolSpec { secret, ..spec.clone() }, None)?;
        Ok(Draft { id: spec.name.clone(), body, view: HttpToolResource::of(spec, generated, None) })
    }

    fn id_taken() -> Fault {
        Fault::new(Code::PreconditionFailed, "Somebody else just made a tool of this name; look again.")
    }
}

/// The body to store. If the specification has no secret, `sealed` is kept.
fn body(service: &Service, caller: &Caller, mut spec: HttpToolSpec, sealed: Option<String>) -> Result<Value> {
    service.outbox.egress.tenant_destination(caller.tenant, &spec.url).map_err(|why| wrong("url", why))?;
    if !(1..=MAX_TIMEOUT_MS).contains(&spec.timeout_ms) {
        return Err(wrong("timeoutMs", format!("is 1 to {MAX_TIMEOUT_MS}")));
    }
    spec.secret = match &spec.secret {
        Some(secret) => {
            SigningSecret::parse(secret).map_err(|why| wrong("secret", why))?;
            let owner = owner_of_document(caller.tenant, DocumentKind::HttpTool, &spec.name);
            Some(service.sealer.seal(secret, owner)?)
        }
        None => sealed,
    };
    serde_json::to_value(&spec).map_err(|error| Fault::new(Code::Internal, error.to_string()))
}

fn shown(service: &Service, document: &Document) -> HttpToolResource {
    match document.legible() {
        Ok(spec) => {
            let secret_error = document.signing_secrets(&service.sealer).err().map(|why| why.to_string());
            HttpToolResource::of(spec, None, secret_error)
        }
        Err(why) => HttpToolResource::illegible(document.id.clone(), why.to_string()),
    }
}
