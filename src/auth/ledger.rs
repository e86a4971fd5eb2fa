//! The keys in the store: create, list, revoke.

use serde::{Deserialize, Serialize};
use serde_json::json;
use subtle::ConstantTimeEq;

use super::mint::{hash, mint_id, mint_key};
use super::refused_logins::RefusalCause;
use crate::config::auth::{check_key_name, check_name};
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::{AuditRow, KeyAdded, KeyRow, Page, PageAsk, Result, Rotation, Store};

/// What a key is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    pub tenant: String,
    /// Who or what will use it: its decisions are recorded under this name. No other key of the tenant has it, or had it
    /// in the time that the audit tells of.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// It is not accepted from then on; absent = until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// How a key is replaced by another that is the same to everybody else: id, name and scopes stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRotation {
    /// How long the old key stays valid, in milliseconds: at most 30 days. While an earlier overlap lasts, the key can be
    /// rotated only without an overlap, which ends both old keys at once.
    #[serde(default)]
    pub overlap_ms: Millis,
    /// Absent = as before. A key that has expired needs it, and is valid again with its new value only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// How long the former secret of a rotated key may stay valid.
pub(crate) const MAX_OVERLAP: Millis = 30 * 24 * 3_600_000;

fn invalid(at: &str, how: &str) -> std::result::Result<(), Fault> {
    Err(Fault::new(Code::Invalid, format!("`{at}` {how}.")).at(format!("/{at}"), how))
}

fn check_end(expires_at: Option<Millis>, now: Millis) -> std::result::Result<(), Fault> {
    if expires_at.is_some_and(|end| end <= now) {
        return invalid("expiresAt", "must be a time to come, in Unix milliseconds");
    }
    Ok(())
}

impl KeyRotation {
    pub fn check(&self, now: Millis) -> std::result::Result<(), Fault> {
        if !(0..=MAX_OVERLAP).contains(&self.overlap_ms) {
            return invalid("overlapMs", "must be from 0 to 2592000000 (30 days)");
        }
        check_end(self.expires_at, now)
    }
}

impl NewKey {
    /// Rejects ambiguous names, keys without scopes, and an expiry in the past.
    pub fn check(&self, now: Millis) -> std::result::Result<(), Fault> {
        check_end(self.expires_at, now)?;
        check_tenant(&self.tenant)?;
        check_key_name(&self.name).or_else(|how| invalid("name", &how))?;
        if self.scopes.is_empty() {
            return invalid("scopes", "must have at least one of read, run, approve and admin");
        }
        if self.scopes.contains(&Scope::Operator) {
            return invalid("scopes", "must not have operator: only keys in PES_API_KEYS can, so configure one there");
        }
        Ok(())
    }
}

/// Rejects invalid tenant names.
pub fn check_tenant(name: &str) -> std::result::Result<(), Fault> {
    check_name(name).map_err(|how| Fault::new(Code::Invalid, format!("`tenant` {how}.")).at("/tenant", how))
}

/// A key just made. This is the only time that it is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    pub key_id: String,
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// A key as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    pub key_id: String,
    pub tenant: String,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub created_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When somebody was let in with it last, within the hour; absent: nobody was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Millis>,
    /// Until when the key's former value stays valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_until: Option<Millis>,
}

/// What became of a new key.
#[derive(Debug)]
pub enum IssueResult {
    /// It is stored and valid.
    Made(Issued),
    /// The tenant has, or had, a key with this name.
    NameTaken,
    /// The tenant already has as many valid keys as it may.
    TooMany,
}

/// Creates a key that was checked, if the tenant has fewer than `max_keys` valid ones.
pub async fn issue(store: &dyn Store, new: &NewKey, max_keys: usize, by: &str, now: Millis) -> Result<IssueResult> {
    let issued = Issued { key_id: mint_id(), key: mint_key() };
    let scopes: Vec<&str> = new.scopes.iter().copied().map(Scope::as_str).collect();
    let row = KeyRow {
        key_id: issued.key_id.clone(),
        tenant: store.tenant(&new.tenant, now).await?,
        tenant_name: new.tenant.clone(),
        name: new.name.clone(),
        hash: hash(&issued.key),
        scopes: scopes.join(" "),
        created_at: now,
        revoked_at: None,
        expires_at: new.expires_at,
        used_at: None,
        former_hash: None,
        former_until: None,
    };
    let line = with_end(audit_line(&row, "make key", by, now), row.expires_at);
    Ok(match store.add_key(row, max_keys, line).await? {
        KeyAdded::Stored => IssueResult::Made(issued),
        KeyAdded::NameTaken => IssueResult::NameTaken,
        KeyAdded::TooMany => IssueResult::TooMany,
    })
}

/// The audit line of a new key, or of a new value of one, with its end, if it has any.
fn with_end(mut line: AuditRow, expires_at: Option<Millis>) -> AuditRow {
    if let Some(end) = expires_at {
        line.detail["expiresAt"] = json!(end);
    }
    line
}

/// The audit line for a key.
pub(super) fn audit_line(key: &KeyRow, action: &str, by: &str, at: Millis) -> AuditRow {
    let detail = json!({ "keyId": key.key_id, "name": key.name, "scopes": scopes(key) });
    AuditRow::of_tenant(key.tenant, at, by, action, detail)
}

/// All keys in the store, including revoked ones, oldest first.
pub async fn list(store: &dyn Store) -> Result<Vec<ApiKey>> {
    let mut rows = store.keys().await?;
    rows.sort_by(|a, b| (a.created_at, &a.key_id).cmp(&(b.created_at, &b.key_id)));
    Ok(rows.into_iter().map(api_key).collect())
}

/// The keys of the tenant, oldest first.
pub(super) async fn list_of(store: &dyn Store, tenant: TenantPk, page: &PageAsk) -> Result<Page<ApiKey>> {
    Ok(store.key_page(tenant, page).await?.map(api_key))
}

/// `false`: there is no such active key. Running servers notice within five seconds.
pub async fn revoke(store: &dyn Store, key_id: &str, by: &str, now: Millis) -> Result<bool> {
    match store.key(key_id).await? {
        Some(key) => store.revoke_key(key_id, now, audit_line(&key, "revoke key", by, now)).await,
        None => Ok(false),
    }
}

/// The result of a rotation.
#[derive(Debug)]
pub enum RotationResult {
    Made(Issued),
    /// There is no such key, or it was revoked.
    NoKey,
    /// It expired at this time; only a rotation with a new end and without an overlap makes it valid again.
    Expired(Millis),
    /// It has expired, and the tenant has as many valid keys as it may.
    TooMany,
    /// The previous key is valid until this time and may be in use.
    Overlaps(Millis),
}

/// Replaces a key that was not revoked, after the rotation was checked.
pub async fn rotate(
    store: &dyn Store,
    key_id: &str,
    rotation: &KeyRotation,
    max_keys: usize,
    by: &str,
    now: Millis,
) -> Result<RotationResult> {
    let row = store.key(key_id).await?.filter(|key| key.revoked_at.is_none());
    let Some(row) = row else { return Ok(RotationResult::NoKey) };
    // With an overlap, a value that has expired would be accepted again.
    if let Some(end) = row.expires_at.filter(|end| *end <= now)
        && (rotation.expires_at.is_none() || rotation.overlap_ms > 0)
    {
        return Ok(RotationResult::Expired(end));
    }
    let issued = Issued { key_id: key_id.to_owned(), key: mint_key() };
    let replacement = Rotation {
        key_id: key_id.to_owned(),
        hash: hash(&issued.key),
        former_until: now + rotation.overlap_ms,
        expires_at: rotation.expires_at,
        max_keys,
        now,
    };
    let mut line = with_end(audit_line(&row, "rotate key", by, now), rotation.expires_at.or(row.expires_at));
    line.detail["formerUntil"] = json!(replacement.former_until);
    if store.rotate_key(replacement, line).await? {
        return Ok(RotationResult::Made(issued));
    }
    let stored = store.key(key_id).await?.filter(|key| key.revoked_at.is_none());
    Ok(match stored {
        Some(key) if !is_valid(&key, now) => RotationResult::TooMany,
        stored => {
            let former = stored.and_then(|key| key.former_until).filter(|until| *until > now);
            former.map_or(RotationResult::NoKey, RotationResult::Overlaps)
        }
    })
}

/// The fault for a rotation that does not make a key valid again.
pub(crate) fn expired(end: Millis) -> Fault {
    let detail = format!(
        "This key expired at {}. Rotate it with a new `expiresAt` and without an overlap: it is valid again then, with its new \
         value only.",
        time(end)
    );
    Fault::new(Code::Invalid, detail).at("/expiresAt", "must be given, and no overlapMs")
}

fn time(at: Millis) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::MAX)
}

/// The fault for a rotation that would end the previous key before its overlap.
pub(crate) fn overlaps(until: Millis) -> Fault {
    let until = time(until);
    let detail = format!(
        "The former value of this key is valid until {until} (formerUntil). Rotate it again after that; or without an \
         overlap, which ends both values at once; or revoke it."
    );
    Fault::new(Code::KeyOverlap, detail)
}

/// Why a key with this hash is refused; `None`: it is valid.
pub(super) fn refusal_cause(key: &KeyRow, hash: &str, now: Millis) -> Option<RefusalCause> {
    let is_former = key.former_hash.as_ref().is_some_and(|former| equals(former, hash));
    let is_current = equals(&key.hash, hash) || is_former && key.former_until.is_some_and(|until| until > now);
    if key.revoked_at.is_some() {
        Some(RefusalCause::RevokedKey)
    } else if !is_current {
        Some(RefusalCause::RotatedKey)
    } else {
        key.expires_at.is_some_and(|end| end <= now).then_some(RefusalCause::ExpiredKey)
    }
}

/// Whether anybody is admitted with the key.
fn is_valid(key: &KeyRow, now: Millis) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
}

/// Compares in constant time.
pub(super) fn equals(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// The scopes of a stored key. `operator` is removed, so that write access to the database does not give it.
pub(super) fn scopes(key: &KeyRow) -> Vec<Scope> {
    let scopes = key.scopes.split(' ').filter_map(Scope::named);
    scopes.filter(|scope| *scope != Scope::Operator).collect()
}

fn api_key(row: KeyRow) -> ApiKey {
    ApiKey {
        scopes: scopes(&row),
        key_id: row.key_id,
        tenant: row.tenant_name,
        name: row.name,
        created_at: row.created_at,
        revoked_at: row.revoked_at,
        expires_at: row.expires_at,
        last_used_at: row.used_at,
        former_until: row.former_until,
    }
}
