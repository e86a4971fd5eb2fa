//! Where a task's changes are posted: stored as a row of its thread, so that it is written with the task and erased with
//! it. Its secrets are sealed.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::worker::Unaddressed;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::egress::Destination;
use crate::engine::step::{Keep, Row, RowKind};
use crate::store;
use crate::store::documents::{Owner, Sealer, Unreadable};
use crate::store::outbox::TargetKind;

/// The members that are sealed, as [`Owner`] names them.
const CREDENTIALS: &str = "credentials";
const TOKEN_MEMBER: &str = "token";
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");

/// One receiver of one task's changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushTarget {
    pub run_id: RunId,
    /// Unique within the task.
    pub id: String,
    pub url: String,
    /// The version of the protocol in which events are sent.
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
    pub fn read(row: &Row) -> store::Result<Option<Self>> {
        let damaged = |error| store::Error::Damaged(format!("the push configuration {}: {error}", row.id));
        serde_json::from_str(&row.body).map_err(damaged)
    }

    /// Deliveries to one receiver are made one after another.
    pub fn ordering_key(&self, thread: ThreadPk) -> String {
        format!("push:{}:{}", thread.0, Self::name(&self.run_id, &self.id))
    }

    pub fn seal(&mut self, sealer: &Sealer, tenant: TenantPk) -> Result<(), Fault> {
        let name = Self::name(&self.run_id, &self.id);
        for (member, secret) in self.sealed() {
            *secret = sealer.seal(secret, owner(tenant, member, &name))?;
        }
        Ok(())
    }

    /// Seals under the key that seals now what was sealed under another; `false`: nothing was.
    pub fn reseal(&mut self, sealer: &Sealer, tenant: TenantPk) -> Result<bool, Unreadable> {
        let (name, mut is_changed) = (Self::name(&self.run_id, &self.id), false);
        for (member, secret) in self.sealed() {
            if let Some(again) = sealer.reseal(secret, owner(tenant, member, &name))? {
                *secret = again;
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    /// Whether it has secrets.
    pub fn is_sealed(&self) -> bool {
        self.credentials.is_some() || self.token.is_some()
    }

    fn sealed(&mut self) -> impl Iterator<Item = (&'static str, &mut String)> {
        let members = [(CREDENTIALS, self.credentials.as_mut()), (TOKEN_MEMBER, self.token.as_mut())];
        members.into_iter().filter_map(|(member, secret)| Some((member, secret?)))
    }

    /// Where to, and with which headers.
    pub(super) fn address(&self, tenant: TenantPk, sealer: &Sealer) -> Result<(Destination, HeaderMap), Unaddressed> {
        let name = Self::name(&self.run_id, &self.id);
        let open = |member, sealed: &String| {
            let opened = sealer.open(sealed, owner(tenant, member, &name));
            opened.map_err(Unaddressed::Unreadable)
        };
        let secret = |text: &str| secret(text).map_err(Unaddressed::Unreadable);
        let mut headers = HeaderMap::new();
        if let (Some(scheme), Some(sealed)) = (&self.scheme, &self.credentials) {
            headers.insert(AUTHORIZATION, secret(&format!("{scheme} {}", open(CREDENTIALS, sealed)?))?);
        }
        if let Some(sealed) = &self.token {
            headers.insert(TOKEN, secret(&open(TOKEN_MEMBER, sealed)?)?);
        }
        let damaged = |error| {
            Unaddressed::Unread(store::Error::Damaged(format!("the url of the push configuration {name}: {error}")))
        };
        let url = self.url.parse().map_err(damaged)?;
        Ok((Destination::Untrusted { url, tenant }, headers))
    }
}

/// What its secrets are sealed for.
fn owner<'a>(tenant: TenantPk, member: &'static str, name: &'a str) -> Owner<'a> {
    Owner { tenant, kind: TargetKind::Push.as_str(), member, id: name }
}

/// What may stand in a header; never shown.
fn secret(text: &str) -> Result<HeaderValue, Unreadable> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Unreadable::Malformed)?;
    value.set_sensitive(true);
    Ok(value)
}
