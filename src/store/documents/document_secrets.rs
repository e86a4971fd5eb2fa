//! Which secrets a document holds, and whether they can be opened.

use std::sync::Arc;

use serde_json::Value;

use super::{Document, DocumentKind, Owner, Sealer, Unreadable};
use crate::domain::ids::TenantPk;
use crate::egress::SigningSecret;

impl DocumentKind {
    /// The member of its body whose texts are sealed: one text, or a list.
    fn sealed_member(self) -> Option<&'static str> {
        match self {
            DocumentKind::HttpTool => Some("secret"),
            DocumentKind::Webhook => Some("secrets"),
            DocumentKind::Agent => Some("token"),
            // They hold no secrets themselves.
            DocumentKind::McpServer
            | DocumentKind::McpTools
            | DocumentKind::Policy
            | DocumentKind::Schedule
            | DocumentKind::SpendCaps
            | DocumentKind::RunLimits
            | DocumentKind::Removal => None,
        }
    }
}

/// The owner with which the secrets of a document are sealed.
pub fn owner_of_document(tenant: TenantPk, kind: DocumentKind, id: &str) -> Owner<'_> {
    Owner { tenant, kind: kind.as_str(), member: kind.sealed_member().unwrap_or_default(), id }
}

/// The kind of stored responses among sealed texts.
pub const RESPONSE: &str = "answer";

/// An unambiguous id of the response stored under an `Idempotency-Key`, whatever characters scope and key contain.
pub fn response_id(scope: &str, key: &str) -> String {
    format!("{}:{scope}{key}", scope.len())
}

/// The owner with which a stored response is sealed.
pub fn owner_of_response(tenant: TenantPk, id: &str) -> Owner<'_> {
    Owner { tenant, kind: RESPONSE, member: "body", id }
}

impl Document {
    /// Its secrets, if each of them can be opened.
    pub fn secrets(&self, sealer: &Sealer) -> Result<Vec<String>, Unreadable> {
        self.sealed()?.into_iter().map(|sealed| sealer.open(sealed, self.owner())).collect()
    }

    /// The same as signing secrets. There must be at least one.
    pub(crate) fn signing_secrets(&self, sealer: &Sealer) -> Result<Vec<SigningSecret>, Unreadable> {
        let secrets = self.secrets(sealer)?;
        if secrets.is_empty() {
            return Err(Unreadable::Malformed);
        }
        secrets.iter().map(|secret| SigningSecret::parse(secret).map_err(|_| Unreadable::Malformed)).collect()
    }

    /// How many secrets it has, whether or not they can be opened.
    pub fn secret_count(&self) -> usize {
        self.sealed().map_or(1, |sealed| sealed.len())
    }

    /// Its secrets as they are stored, for a body that replaces this one.
    pub fn kept_secrets(&self) -> Option<&Value> {
        self.body.as_ref()?.get(self.kind.sealed_member()?)
    }

    /// Its body as it would be without secrets.
    pub fn without_secrets(&self) -> Value {
        let mut body = self.body.clone().unwrap_or_default();
        if let (Some(member), Some(fields)) = (self.kind.sealed_member(), body.as_object_mut()) {
            fields.shift_remove(member);
        }
        body
    }

    /// Its body with every secret sealed with the current key. `None`: it is stored so already.
    pub fn resealed(&self, sealer: &Sealer) -> Result<Option<Value>, Unreadable> {
        let sealed = self.sealed()?;
        let again = sealed.iter().map(|text| sealer.reseal(text, self.owner())).collect::<Result<Vec<_>, _>>()?;
        if again.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut texts =
            again.into_iter().zip(sealed).map(|(again, old)| Value::from(again.unwrap_or_else(|| old.to_owned())));
        let mut body = self.body.clone().unwrap_or_default();
        match self.kind.sealed_member().and_then(|member| body.get_mut(member)) {
            Some(Value::Array(list)) => *list = texts.collect(),
            Some(one) => *one = texts.next().unwrap_or_default(),
            None => {}
        }
        Ok(Some(body))
    }

    fn owner(&self) -> Owner<'_> {
        owner_of_document(self.tenant, self.kind, &self.id)
    }

    fn sealed(&self) -> Result<Vec<&str>, Unreadable> {
        match self.kept_secrets() {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(sealed)) => Ok(vec![sealed]),
            Some(Value::Array(sealed)) => {
                sealed.iter().map(|sealed| sealed.as_str().ok_or(Unreadable::Malformed)).collect()
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(Unreadable::Malformed),
        }
    }
}

/// Whether the secrets of many documents can be opened with the available keys.
pub struct Survey {
    /// Documents that hold secrets.
    pub sealed: usize,
    pub unreadable: Vec<(Arc<Document>, Unreadable)>,
}

impl Survey {
    pub fn of(documents: impl IntoIterator<Item = Arc<Document>>, sealer: &Sealer) -> Self {
        let mut survey = Self { sealed: 0, unreadable: Vec::new() };
        for document in documents {
            match document.secrets(sealer) {
                Ok(secrets) if secrets.is_empty() => {}
                Ok(_) => survey.sealed += 1,
                Err(why) => {
                    survey.sealed += 1;
                    survey.unreadable.push((document, why));
                }
            }
        }
        survey
    }

    /// Logs which secrets cannot be opened, once at the start.
    pub fn warn(&self) {
        if self.unreadable.is_empty() {
            return;
        }
        let of = |kind: DocumentKind| self.unreadable.iter().filter(|(document, _)| document.kind == kind).count();
        tracing::warn!(
            code = Unreadable::CODE,
            unreadable = self.unreadable.len(),
            sealed = self.sealed,
            webhooks = of(DocumentKind::Webhook),
            httpTools = of(DocumentKind::HttpTool),
            agents = of(DocumentKind::Agent),
            "secrets cannot be opened with the sealing keys held: what needs them is not sent; `pes doctor` names them"
        );
    }
}
