//! Aggregates refused logins for the audit: one line per cause and tenant every quarter of an hour. The lines contain
//! nothing of the credentials. A process that is killed loses what it has not written yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::keys::Keys;
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::store::{self, AuditRow};

/// How long logins are aggregated.
pub const AUDIT_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RefusalCause {
    UnknownKey,
    RevokedKey,
    ExpiredKey,
    /// The key was replaced, and its overlap has passed.
    RotatedKey,
    /// The token is not accepted or has expired.
    Token,
    /// A browser came back from an issuer without a started login, or the issuer refused it.
    SignIn,
}

impl RefusalCause {
    /// The name in the audit.
    fn as_str(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown key",
            Self::RevokedKey => "revoked key",
            Self::ExpiredKey => "expired key",
            Self::RotatedKey => "rotated key",
            Self::Token => "token",
            Self::SignIn => "sign-in",
        }
    }
}

/// Why a caller is refused.
pub(super) struct Refusal {
    pub(super) fault: Fault,
    /// What is wrong with the credentials, and the tenant that they belong to, if known.
    pub(super) cause: Option<(RefusalCause, Option<TenantPk>)>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault, cause: None }
    }
}

/// The aggregate of one cause.
struct LoginCount {
    count: u64,
    first: Millis,
    last: Millis,
}

/// The aggregates that are not written yet: at most one per cause and tenant.
#[derive(Default)]
pub(super) struct RefusedLogins(Mutex<BTreeMap<(TenantPk, RefusalCause), LoginCount>>);

impl RefusedLogins {
    fn add(&self, tenant: TenantPk, cause: RefusalCause, new: LoginCount) {
        let mut sums = self.0.lock();
        let sum = sums.entry((tenant, cause)).or_insert(LoginCount { count: 0, ..new });
        sum.count += new.count;
        (sum.first, sum.last) = (sum.first.min(new.first), sum.last.max(new.last));
    }
}

/// The tenants whose audit lists logins with unknown credentials: those with an operator's key, else the open tenant.
pub(super) fn tenants_for_unknown_keys(configured: &[(String, Caller)], open: TenantPk) -> Vec<TenantPk> {
    let of_operators = configured.iter().filter(|(_, caller)| caller.scopes.contains(&Scope::Operator));
    let mut tenants: Vec<TenantPk> = of_operators.map(|(_, caller)| caller.tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    if tenants.is_empty() { vec![open] } else { tenants }
}

impl Keys {
    /// Counts a refused login. `None`: the credentials belong to no tenant.
    pub(super) fn count_refused(&self, cause: RefusalCause, tenant: Option<TenantPk>) {
        let now = (self.now)();
        for tenant in tenant.as_ref().map_or(&self.unknown_key_tenants[..], std::slice::from_ref) {
            self.refused.add(*tenant, cause, LoginCount { count: 1, first: now, last: now });
        }
    }

    /// Writes the refused logins to the audit every quarter of an hour, and once more when the server closes.
    pub async fn audit_refused_logins(self: Arc<Self>, closing: CancellationToken) {
        loop {
            let is_closing = closing.run_until_cancelled(sleep(AUDIT_INTERVAL)).await.is_none();
            if let Err(error) = self.write_refused().await {
                tracing::warn!(%error, "which logins were refused is written into the audit later");
            }
            if is_closing {
                return;
            }
        }
    }

    /// Writes a line for each aggregate. Aggregates that cannot be written are kept.
    async fn write_refused(&self) -> store::Result<()> {
        let sums = std::mem::take(&mut *self.refused.0.lock());
        let mut written = Ok(());
        for ((tenant, cause), sum) in sums {
            if written.is_ok() {
                written = self.store.add_line(line(tenant, cause, &sum, (self.now)())).await;
            }
            if written.is_err() {
                self.refused.add(tenant, cause, sum);
            }
        }
        written
    }
}

fn line(tenant: TenantPk, cause: RefusalCause, sum: &LoginCount, now: Millis) -> AuditRow {
    let detail = json!({ "cause": cause.as_str(), "count": sum.count, "first": sum.first, "last": sum.last });
    AuditRow::of_tenant(tenant, now, ServerActor::Server.as_str(), "refuse login", detail)
}
