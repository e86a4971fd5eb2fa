//! Creating, listing, revoking and rotating the keys of a tenant, for a caller of that tenant.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::super::ledger::{self, ApiKey, IssueResult, Issued, KeyRotation, NewKey, RotationResult, expired, overlaps};
use super::{Keys, unavailable};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::store::{Page, PageAsk};

/// A key in the settings of the server (`PES_API_KEYS`). It is not rotated or revoked here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ConfiguredApiKey {
    pub name: String,
    pub scopes: Vec<Scope>,
}

impl Keys {
    /// Bounds the valid keys that a tenant may have in the store. Without it their number is not limited.
    pub fn with_max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Creates a key for the caller's own tenant; on an open server, whose caller is the operator, for any tenant. There it
    /// is the first one, and must have `admin`: the server closes, and nobody else could make another.
    pub async fn issue(&self, caller: &Caller, new: &NewKey) -> Result<Issued, Fault> {
        new.check((self.now)())?;
        let is_open = self.is_open().await?;
        if is_open && !new.scopes.contains(&Scope::Admin) {
            let how = "must have admin: this is the first key of the server, every request needs a key from then on, and \
                       only a key with admin makes others; make that key first";
            return Err(Fault::invalid("/scopes", how));
        }
        if new.tenant != caller.tenant_name && !is_open {
            let detail = format!("This key may make keys of the tenant `{}` only.", caller.tenant_name);
            return Err(Fault::new(Code::Forbidden, detail));
        }
        let mut others = self.configured.iter().map(|(_, other)| (&other.tenant_name, &other.name));
        if others.any(|other| other == (&new.tenant, &new.name)) {
            return Err(name_taken(&new.name));
        }
        let now = (self.now)();
        match ledger::issue(&*self.store, new, self.max_keys, &caller.name, now).await.map_err(unavailable)? {
            IssueResult::Made(issued) => {
                self.is_locked.store(true, Ordering::Relaxed);
                Ok(issued)
            }
            IssueResult::NameTaken => Err(name_taken(&new.name)),
            IssueResult::TooMany => Err(too_many_keys(self.max_keys)),
        }
    }

    /// The stored keys of the caller's tenant, oldest first.
    pub async fn list(&self, caller: &Caller, page: &PageAsk) -> Result<Page<ApiKey>, Fault> {
        ledger::list_of(&*self.store, caller.tenant, page).await.map_err(unavailable)
    }

    /// The configured keys of the caller's tenant, in the order of the settings.
    pub fn list_configured(&self, caller: &Caller) -> Vec<ConfiguredApiKey> {
        let own = self.configured.iter().filter(|(_, key)| key.tenant == caller.tenant);
        own.map(|(_, key)| ConfiguredApiKey { name: key.name.clone(), scopes: key.scopes.clone() }).collect()
    }

    async fn is_own(&self, caller: &Caller, key_id: &str) -> Result<bool, Fault> {
        let found = self.store.key(key_id).await.map_err(unavailable)?;
        Ok(found.is_some_and(|key| key.tenant == caller.tenant))
    }

    /// Revokes a stored key of the caller's tenant.
    pub async fn revoke(&self, caller: &Caller, key_id: &str) -> Result<(), Fault> {
        let by = &caller.name;
        if self.is_own(caller, key_id).await?
            && ledger::revoke(&*self.store, key_id, by, (self.now)()).await.map_err(unavailable)?
        {
            self.clear_cached_callers();
            return Ok(());
        }
        Err(Fault::not_found("active key"))
    }

    /// Replaces a stored key of the caller's tenant by a new one. The old one stays valid until the overlap has passed. One that
    /// has expired is valid again if it gets a new end.
    pub async fn rotate(&self, caller: &Caller, key_id: &str, rotation: &KeyRotation) -> Result<Issued, Fault> {
        let now = (self.now)();
        rotation.check(now)?;
        if !self.is_own(caller, key_id).await? {
            return Err(Fault::not_found("active key"));
        }
        let rotated = ledger::rotate(&*self.store, key_id, rotation, self.max_keys, &caller.name, now).await;
        match rotated.map_err(unavailable)? {
            RotationResult::Made(issued) => {
                self.clear_cached_callers();
                Ok(issued)
            }
            RotationResult::NoKey => Err(Fault::not_found("active key")),
            RotationResult::Expired(end) => Err(expired(end)),
            RotationResult::TooMany => Err(too_many_keys(self.max_keys)),
            RotationResult::Overlaps(until) => Err(overlaps(until)),
        }
    }
}

pub(crate) fn too_many_keys(max_keys: usize) -> Fault {
    let detail =
        format!("This tenant has {max_keys} valid keys, as many as `limits.keys_per_tenant` allows; revoke one first.");
    Fault::new(Code::TooManyDocuments, detail)
}

/// The audit refers to a name even after its key was revoked: it is free when the key is forgotten with the audit.
pub(crate) fn name_taken(name: &str) -> Fault {
    let detail = format!("`{name}` is or was the name of a key of this tenant, and stands in its audit; take another.");
    Fault::new(Code::KeyExists, detail).at("/name", "is taken")
}
