//! The receivers of push notifications of A2A tasks. A receiver is stored as a row of its thread, so it is written with the
//! task and erased with it. Its secrets are sealed.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::worker::NoAddress;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::egress::Destination;
use crate::engine::step::{Keep, Row, RowKind};
use crate::store;
use crate::store::documents::{Owner, Sealer, Unreadable};
use crate::store::outbox::TargetKind;

/// The names of the sealed members, as [`Owner`] has them.
const CREDENTIALS: &str = "credentials";
const TOKEN_MEMBER: &str = "token";
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-a2a-notification-token");

/// One receiver of the changes of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushTarget {
    pub run_id: RunId,
    /// Unique within the task.
    pub id: String,
    pub url: String,
    /// The A2A version in which events are sent.
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
    /// Its name within the thread: the id of its row and the target of its deliveries.
    pub fn name(run: &RunId, id: &str) -> String {
        format!("{run}/{id}")
    }

    /// The origin of its URL; `None`: what is stored is no URL.
    pub fn origin(&self) -> Option<String> {
        Some(self.url.parse::<url::Url>().ok()?.origin().ascii_serialization())
    }

    /// The row to store. It is loaded with the thread until the task has ended.
    pub fn row(&self, has_ended: bool) -> Row {
        let body = serde_json::to_string(self).expect("a push target is plain data");
        let keep = if has_ended { Keep::Never } else { Keep::Always };
        Row { kind: RowKind::Push, id: Self::name(&self.run_id, &self.id), ord: self.created_at, keep, body }
    }

    /// The row to store in place of a deleted receiver.
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
        for (member, secret) in self.sealed_members() {
            *secret = sealer.seal(secret, owner(tenant, member, &name))?;
        }
        Ok(())
    }

    /// Seals again, with the current key, what was sealed with an old one; `false`: nothing was.
    pub fn reseal(&mut self, sealer: &Sealer, tenant: TenantPk) -> Result<bool, Unreadable> {
        let (name, mut is_changed) = (Self::name(&self.run_id, &self.id), false);
        for (member, secret) in self.sealed_members() {
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

    fn sealed_members(&mut self) -> impl Iterator<Item = (&'static str, &mut String)> {
        let members = [(CREDENTIALS, self.credentials.as_mut()), (TOKEN_MEMBER, self.token.as_mut())];
        members.into_iter().filter_map(|(member, secret)| Some((member, secret?)))
    }

    /// The destination and the headers that carry its secrets.
    pub(super) fn address(&self, tenant: TenantPk, sealer: &Sealer) -> Result<(Destination, HeaderMap), NoAddress> {
        let name = Self::name(&self.run_id, &self.id);
        let open = |member, sealed: &String| {
            let opened = sealer.open(sealed, owner(tenant, member, &name));
            opened.map_err(NoAddress::Unreadable)
        };
        let secret = |text: &str| secret_header(text).map_err(NoAddress::Unreadable);
        let mut headers = HeaderMap::new();
        if let (Some(scheme), Some(sealed)) = (&self.scheme, &self.credentials) {
            headers.insert(AUTHORIZATION, secret(&format!("{scheme} {}", open(CREDENTIALS, sealed)?))?);
        }
        if let Some(sealed) = &self.token {
            headers.insert(TOKEN_HEADER, secret(&open(TOKEN_MEMBER, sealed)?)?);
        }
        let damaged = |error| {
            NoAddress::Store(store::Error::Damaged(format!("the url of the push configuration {name}: {error}")))
        };
        let url = self.url.parse().map_err(damaged)?;
        Ok((Destination::Untrusted { url, tenant }, headers))
    }
}

/// The owner under which a secret is sealed.
fn owner<'a>(tenant: TenantPk, member: &'static str, name: &'a str) -> Owner<'a> {
    Owner { tenant, kind: TargetKind::Push.as_str(), member, id: name }
}

/// A secret as a header value, marked sensitive.
fn secret_header(text: &str) -> Result<HeaderValue, Unreadable> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Unreadable::Malformed)?;
    value.set_sensitive(true);
    Ok(value)
}
