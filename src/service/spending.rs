//! The spending of a tenant and its keys under the caps.

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{Amount, Capped, SpendCaps};
use crate::store::{SpendKey, Spent};

/// The key against whose caps something counts.
#[derive(Clone, Copy)]
pub(super) struct Payer<'a> {
    pub tenant: TenantPk,
    pub key: &'a str,
}

impl<'a> From<&'a Caller> for Payer<'a> {
    fn from(caller: &'a Caller) -> Self {
        Self { tenant: caller.tenant, key: &caller.name }
    }
}

/// For each cap that applies to the payer: what was spent in the current period, the cap, and its amount.
pub(super) async fn spent(
    service: &Service,
    payer: Payer<'_>,
    caps: &SpendCaps,
    now: Millis,
) -> Result<Vec<(Spent, Capped, Amount)>> {
    let applied = |capped: Capped| {
        let cap = caps.of(capped)?;
        Some((SpendKey::of(capped, payer.tenant, Some(payer.key), now)?, (capped, cap)))
    };
    let (rows, caps): (Vec<SpendKey>, Vec<_>) = Capped::ALL.into_iter().filter_map(applied).unzip();
    let spent = service.store.spent(&rows).await?;
    Ok(spent.into_iter().zip(caps).map(|(spent, (capped, cap))| (spent, capped, cap)).collect())
}
