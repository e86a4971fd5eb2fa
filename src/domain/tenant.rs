//! Tenants, and their removal.

use serde::{Deserialize, Serialize};

use super::Millis;

/// The id of the only document that says that a tenant was removed.
pub const REMOVAL_ID: &str = "tenant";

/// Since when a tenant is removed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TenantRemoval {
    /// The name of the operator's key.
    pub by: String,
    pub at: Millis,
}

/// A tenant, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Tenant {
    pub name: String,
    /// Its callers are refused, and what it had is being deleted; absent: it was not removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<TenantRemoval>,
}

/// A tenant, and whether it is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantInUse {
    #[serde(flatten)]
    pub tenant: Tenant,
    /// When one of its threads changed last; absent: it has none, or none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Millis>,
}
