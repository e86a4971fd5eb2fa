//! What a tenant's administrators do with HTTP tools.

use serde_json::Value;

use super::{Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::http_tool::HttpToolSpec;
use crate::egress::{Destination, SigningSecret};
use crate::store::document::{Change, Document, DocumentKind, Expected};

impl Runtime {
    /// In order of their names; without secrets.
    pub fn http_tools(&self, caller: &Caller) -> Result<Vec<HttpToolSpec>> {
        self.0.documents.of(caller.tenant, DocumentKind::HttpTool).iter().map(|document| shown(document)).collect()
    }

    pub fn http_tool(&self, caller: &Caller, name: &str) -> Result<HttpToolSpec> {
        let document = self.0.documents.one(caller.tenant, DocumentKind::HttpTool, name);
        shown(&*document.ok_or_else(|| Fault::not_found("HTTP tool"))?)
    }

    /// Without a secret it gets one, which the answer shows.
    pub async fn create_http_tool(&self, caller: &Caller, mut spec: HttpToolSpec) -> Result<HttpToolSpec> {
        self.0.tools.toolset(caller.tenant).check_new(&spec.spec())?;
        let made = match &spec.secret {
            Some(_) => None,
            None => Some(SigningSecret::random().map_err(|why| Fault::new(Code::Internal, why))?),
        };
        spec.secret = spec.secret.or_else(|| made.clone());
        self.write_http_tool(caller, spec.clone(), None, Expected::Absent).await?;
        Ok(HttpToolSpec { secret: made, ..spec })
    }

    /// Without a secret it keeps its own.
    pub async fn put_http_tool(&self, caller: &Caller, name: &str, spec: HttpToolSpec) -> Result<HttpToolSpec> {
        let known = self.0.documents.one(caller.tenant, DocumentKind::HttpTool, name);
        let known = known.ok_or_else(|| Fault::not_found("HTTP tool"))?;
        if spec.name != name {
            return Err(Fault::new(Code::Invalid, "A tool keeps its name.").at("/name", "is not the one in the path"));
        }
        let sealed = known.body.as_ref().and_then(|body| body["secret"].as_str()).map(str::to_owned);
        self.write_http_tool(caller, spec, sealed, Expected::Version(known.version)).await?;
        self.http_tool(caller, name)
    }

    pub async fn delete_http_tool(&self, caller: &Caller, name: &str) -> Result<()> {
        match self.0.documents.write(self.http_tool_change(caller, name, None), Expected::Any).await? {
            Some(_) => Ok(()),
            None => Err(Fault::not_found("HTTP tool")),
        }
    }

    /// `sealed` is kept where the specification brings no secret of its own.
    async fn write_http_tool(
        &self,
        caller: &Caller,
        mut spec: HttpToolSpec,
        sealed: Option<String>,
        expected: Expected,
    ) -> Result<()> {
        let wrong = |member: &str, why: String| {
            Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
        };
        let url = spec.url.parse().map_err(|error| wrong("url", format!("this is no URL: {error}")))?;
        let to = Destination::Untrusted { url, tenant: caller.tenant };
        self.0.outbox.egress.judge(&to).map_err(|error| wrong("url", error.to_string()))?;
        if !(1..=LONGEST).contains(&spec.timeout_ms) {
            return Err(wrong("timeoutMs", format!("is 1 to {LONGEST}")));
        }
        spec.secret = match &spec.secret {
            Some(secret) => {
                SigningSecret::parse(secret).map_err(|why| wrong("secret", why))?;
                Some(self.0.sealer.seal(secret, &spec.name)?)
            }
            None => sealed,
        };
        let body = serde_json::to_value(&spec).map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
        let change = self.http_tool_change(caller, &spec.name, Some(body));
        match self.0.documents.write(change, expected).await? {
            Some(_) => Ok(()),
            None => Err(Fault::new(Code::PreconditionFailed, "Somebody else changed the tool; look again.")),
        }
    }

    fn http_tool_change(&self, caller: &Caller, name: &str, body: Option<Value>) -> Change {
        Change {
            tenant: caller.tenant,
            kind: DocumentKind::HttpTool,
            id: name.to_owned(),
            body,
            by: caller.name.clone(),
            now: self.0.now(),
        }
    }
}

/// How long a call may take at most, in milliseconds.
const LONGEST: i64 = 600_000;

fn shown(document: &Document) -> Result<HttpToolSpec> {
    let body = document.body.clone().unwrap_or_default();
    let spec: HttpToolSpec = serde_json::from_value(body)
        .map_err(|_| Fault::new(Code::Internal, "What is stored of this tool cannot be read."))?;
    Ok(HttpToolSpec { secret: None, ..spec })
}
