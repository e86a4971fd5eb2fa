//! Parsing the body of a document.

use std::fmt::Display;

use serde::de::DeserializeOwned;

use super::Document;

/// The stored body of a document does not match its kind. Lists show this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is stored of it cannot be read: {0}")]
pub struct Illegible(String);

impl Document {
    /// Its parsed body. An error is counted and logged.
    pub fn legible<T: DeserializeOwned>(&self) -> Result<T, Illegible> {
        let body = self.body.clone().unwrap_or_default();
        serde_json::from_value(body).map_err(|why| self.illegible(why))
    }

    /// Counts and logs that the document is left out.
    pub fn illegible(&self, why: impl Display) -> Illegible {
        let (kind, tenant, id) = (self.kind.as_str(), self.tenant.0, &self.id);
        metrics::counter!("pes_documents_illegible_total", "kind" => kind).increment(1);
        tracing::warn!(kind, tenant, id, %why, "what is stored of it cannot be read: it is left out");
        Illegible(why.to_string())
    }
}
