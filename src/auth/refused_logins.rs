//! Logins that were refused, summed up for the audit: one line for each cause and tenant in a quarter of an hour, however many
//! they were. Nothing of what was shown is in it. A process that is killed loses what it has not written yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::keys::Keys;
use crate::domain::Millis;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Fault;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::{self, AuditRow};

/// How long logins are summed up.
pub const SUMMED_UP: Duration = Duration::from_secs(15 * 60);

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    UnknownKey,
    RevokedKey,
    ExpiredKey,
    /// It was replaced by another, and its overlap is over.
    RotatedKey,
    /// It is not believed, or its time is over.
    Token,
    /// Somebody came back from an issuer with what nobody began, or the issuer refused it.
    SignIn,
}

impl Cause {
    /// As the audit names it.
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

/// Why somebody is not let in.
pub(super) struct Refusal {
    pub(super) fault: Fault,
    /// What was wrong with what was shown, and whose key it was, if that is known.
    pub(super) cause: Option<(Cause, Option<TenantPk>)>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault, cause: None }
    }
}

/// Those of one cause.
struct Sum {
    count: u64,
    first: Millis,
    last: Millis,
}

/// What was not written yet: as many sums as there are causes and tenants, at most.
#[derive(Default)]
pub(super) struct RefusedLogins(Mutex<BTreeMap<(TenantPk, Cause), Sum>>);

impl RefusedLogins {
    fn add(&self, tenant: TenantPk, cause: Cause, new: Sum) {
        let mut sums = self.0.lock();
        let sum = sums.entry((tenant, cause)).or_insert(Sum { count: 0, ..new });
        sum.count += new.count;
        (sum.first, sum.last) = (sum.first.min(new.first), sum.last.max(new.last));
    }
}

/// Who is told of logins with what is nobody's: the tenants of the operator's keys; where there is none, the open tenant.
pub(super) fn told_of_strangers(configured: &[(String, Caller)], open: TenantPk) -> Vec<TenantPk> {
    let of_operators = configured.iter().filter(|(_, caller)| caller.scopes.contains(&Scope::Operator));
    let mut tenants: Vec<TenantPk> = of_operators.map(|(_, caller)| caller.tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    if tenants.is_empty() { vec![open] } else { tenants }
}

impl Keys {
    /// Counts a login with what is this tenant's, or nobody's.
    pub(super) fn count_refused(&self, cause: Cause, tenant: Option<TenantPk>) {
        let now = (self.now)();
        for tenant in tenant.as_ref().map_or(&self.strangers[..], std::slice::from_ref) {
            self.refused.add(*tenant, cause, Sum { count: 1, first: now, last: now });
        }
    }

    /// Writes into the audit which logins were refused, every quarter of an hour, and what is left when the server closes.
    pub async fn tell_refused(self: Arc<Self>, closing: CancellationToken) {
        loop {
            let is_closing = closing.run_until_cancelled(sleep(SUMMED_UP)).await.is_none();
            if let Err(error) = self.write_refused().await {
                tracing::warn!(%error, "which logins were refused is written into the audit later");
            }
            if is_closing {
                return;
            }
        }
    }

    /// A line for each sum. What cannot be written is summed up further.
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

fn line(tenant: TenantPk, cause: Cause, sum: &Sum, now: Millis) -> AuditRow {
    AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: now,
        actor: "server".to_owned(),
        action: "refuse login".to_owned(),
        detail: json!({ "cause": cause.as_str(), "count": sum.count, "first": sum.first, "last": sum.last }),
    }
}
