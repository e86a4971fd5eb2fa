//! The keys in the store: create, list, revoke.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::mint::{hash, mint_id, mint_key};
use crate::config::auth::{check_key_name, check_name, scope, scope_name};
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadPk;
use crate::store::{AuditRow, KeyRow, Result, Store};

/// What a key is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    pub tenant: String,
    /// Who or what will use it: what its decisions are told by. No two keys of a tenant have had the same.
    pub name: String,
    pub scopes: Vec<Scope>,
}

impl NewKey {
    /// Refuses names that nobody could tell apart, and a key that may do nothing.
    pub fn check(&self) -> std::result::Result<(), Fault> {
        let invalid =
            |at: &str, how: &str| Err(Fault::new(Code::Invalid, format!("`{at}` {how}.")).at(format!("/{at}"), how));
        check_tenant(&self.tenant)?;
        check_key_name(&self.name).or_else(|how| invalid("name", how))?;
        if self.scopes.is_empty() {
            return invalid("scopes", "must have at least one of read, run, approve and admin");
        }
        Ok(())
    }
}

/// Refuses what is no name of a tenant.
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
}

/// Makes a key that was checked; after `Ok` it is stored and counts. `None`: its name is taken.
pub async fn issue(store: &dyn Store, new: &NewKey, by: &str, now: Millis) -> Result<Option<Issued>> {
    let issued = Issued { key_id: mint_id(), key: mint_key() };
    let scopes: Vec<&str> = new.scopes.iter().copied().map(scope_name).collect();
    let row = KeyRow {
        key_id: issued.key_id.clone(),
        tenant: store.tenant(&new.tenant, now).await?,
        tenant_name: new.tenant.clone(),
        name: new.name.clone(),
        hash: hash(&issued.key),
        scopes: scopes.join(" "),
        created_at: now,
        revoked_at: None,
    };
    let line = line(&row, "make key", by, now);
    Ok(store.add_key(row, line).await?.then_some(issued))
}

/// What the audit says of a key.
fn line(key: &KeyRow, action: &str, by: &str, at: Millis) -> AuditRow {
    AuditRow {
        tenant: key.tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at,
        actor: by.to_owned(),
        action: action.to_owned(),
        detail: json!({ "keyId": key.key_id, "name": key.name, "scopes": scopes(key) }),
    }
}

/// Every key of the store, revoked ones too, oldest first.
pub async fn list(store: &dyn Store) -> Result<Vec<ApiKey>> {
    let mut rows = store.keys().await?;
    rows.sort_by(|a, b| (a.created_at, &a.key_id).cmp(&(b.created_at, &b.key_id)));
    Ok(rows.into_iter().map(shown).collect())
}

/// `false`: there is no such active key. A running server notices within five seconds.
pub async fn revoke(store: &dyn Store, key_id: &str, by: &str, now: Millis) -> Result<bool> {
    match store.keys().await?.into_iter().find(|key| key.key_id == key_id) {
        Some(key) => store.revoke_key(key_id, now, line(&key, "revoke key", by, now)).await,
        None => Ok(false),
    }
}

/// What the holder of this key may do.
pub(super) fn scopes(key: &KeyRow) -> Vec<Scope> {
    key.scopes.split(' ').filter_map(|name| scope(name).ok()).collect()
}

fn shown(row: KeyRow) -> ApiKey {
    ApiKey {
        scopes: scopes(&row),
        key_id: row.key_id,
        tenant: row.tenant_name,
        name: row.name,
        created_at: row.created_at,
        revoked_at: row.revoked_at,
    }
}
