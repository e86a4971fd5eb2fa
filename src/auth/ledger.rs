//! Keys in the store: made, listed, revoked.

use serde::{Deserialize, Serialize};

use super::mint::{hash, mint_id, mint_key};
use crate::config::auth::{check_name, scope, scope_name};
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::store::{KeyRow, Result, Store};

/// What a key is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    pub tenant: String,
    /// For people: who or what will use it.
    pub name: String,
    pub scopes: Vec<Scope>,
}

impl NewKey {
    /// Refuses names that nobody could tell apart, and a key that may do nothing.
    pub fn check(&self) -> std::result::Result<(), Fault> {
        let invalid =
            |at: &str, how: &str| Err(Fault::new(Code::Invalid, format!("`{at}` {how}.")).at(format!("/{at}"), how));
        for (at, name) in [("tenant", &self.tenant), ("name", &self.name)] {
            check_name(name).or_else(|how| invalid(at, how))?;
        }
        if self.scopes.is_empty() {
            return invalid("scopes", "must have at least one of read, run, approve and admin");
        }
        Ok(())
    }
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

/// Makes a key that was checked; after `Ok` it is stored and counts.
pub async fn issue(store: &dyn Store, new: &NewKey, now: Millis) -> Result<Issued> {
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
    store.add_key(row).await?;
    Ok(issued)
}

/// Every key of the store, revoked ones too, oldest first.
pub async fn list(store: &dyn Store) -> Result<Vec<ApiKey>> {
    let mut rows = store.keys().await?;
    rows.sort_by(|a, b| (a.created_at, &a.key_id).cmp(&(b.created_at, &b.key_id)));
    Ok(rows.into_iter().map(shown).collect())
}

/// `false`: there is no such active key. A running server notices within five seconds.
pub async fn revoke(store: &dyn Store, key_id: &str, now: Millis) -> Result<bool> {
    store.revoke_key(key_id, now).await
}

fn shown(row: KeyRow) -> ApiKey {
    ApiKey {
        key_id: row.key_id,
        tenant: row.tenant_name,
        name: row.name,
        scopes: row.scopes.split(' ').filter_map(|name| scope(name).ok()).collect(),
        created_at: row.created_at,
        revoked_at: row.revoked_at,
    }
}
