//! What a tenant and its keys spent under the caps, and what is left.

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::spend::{Capped, SpendCaps};
use crate::domain::usage::Nanos;
use crate::store::{SpendKey, Spent};

/// What was spent of each cap that the caller has, in the periods of this time.
pub(super) async fn spent(
    service: &Service,
    caller: &Caller,
    caps: &SpendCaps,
    now: Millis,
) -> Result<Vec<(Spent, Capped, Nanos)>> {
    let caps: Vec<_> = Capped::ALL.into_iter().filter_map(|capped| Some((capped, caps.of(capped)?))).collect();
    let key = |capped: Capped| match capped {
        Capped::TenantDay | Capped::TenantMonth => String::new(),
        Capped::KeyDay => caller.name.clone(),
    };
    let row = |capped: Capped| SpendKey { tenant: caller.tenant, key: key(capped), period: capped.period(now) };
    let rows: Vec<SpendKey> = caps.iter().map(|(capped, _)| row(*capped)).collect();
    let spent = service.store.spent(&rows).await?;
    Ok(spent.into_iter().zip(caps).map(|(spent, (capped, cap))| (spent, capped, cap)).collect())
}
