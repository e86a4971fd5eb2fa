//! Where a task's changes are posted: stored as a row of its thread, so that it is written with the task and erased with
//! it. Its secrets are sealed.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::egress::Destination;
use crate::engine::step::{Keep, Row, RowKind};
use crate::store::document::Sealer;

const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");

/// One receiver of one task's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushTarget {
    pub run_id: RunId,
    /// Unique within the task.
    pub id: String,
    pub url: String,
    /// The version of the protocol in which it is told.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    pub created_at: Millis,
}

impl PushTarget {
    /// Its name within the thread: of its row, and of its deliveries.
    pub fn name(run: &RunId, id: &str) -> String {
        format!("{run}/{id}")
    }

    /// As it is stored. It is loaded with the thread while its task goes on.
    pub fn row(&self, is_over: bool) -> Row {
        let body = serde_json::to_string(self).expect("a push target is plain data");
        let keep = if is_over { Keep::Never } else { Keep::Always };
        Row { kind: RowKind::Push, id: Self::name(&self.run_id, &self.id), ord: self.created_at, keep, body }
    }

    /// What is stored in place of one that was deleted.
    pub fn deleted(run: &RunId, id: &str) -> Row {
        Row { kind: RowKind::Push, id: Self::name(run, id), ord: 0, keep: Keep::Never, body: "null".to_owned() }
    }

    /// `None`: it was deleted.
    pub fn read(row: &Row) -> Result<Option<Self>, serde_json::Error> {
        serde_json::from_str(&row.body)
    }

    /// Deliveries to one receiver are made one after another.
    pub fn lane(&self, thread: ThreadPk) -> String {
        format!("push:{}:{}", thread.0, Self::name(&self.run_id, &self.id))
    }

    pub fn seal(&mut self, sealer: &Sealer) -> Result<(), Fault> {
        let owner = Self::name(&self.run_id, &self.id);
        for secret in [&mut self.credentials, &mut self.token].into_iter().flatten() {
            *secret = sealer.seal(secret, &owner)?;
        }
        Ok(())
    }

    /// Where to, and with which headers; `None`: a secret cannot be opened any more.
    pub(super) fn address(&self, tenant: TenantPk, sealer: &Sealer) -> Option<(Destination, HeaderMap)> {
        let owner = Self::name(&self.run_id, &self.id);
        let open = |sealed: &String| sealer.open(sealed, &owner);
        let mut headers = HeaderMap::new();
        if let (Some(scheme), Some(sealed)) = (&self.scheme, &self.credentials) {
            headers.insert(AUTHORIZATION, secret(&format!("{scheme} {}", open(sealed)?))?);
        }
        if let Some(token) = &self.token {
            headers.insert(TOKEN, secret(&open(token)?)?);
        }
        Some((Destination::Untrusted { url: self.url.parse().ok()?, tenant }, headers))
    }
}

/// What may stand in a header; never shown.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
