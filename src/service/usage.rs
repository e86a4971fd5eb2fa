//! The usage of model calls: tokens and cost, summed by a group that the caller chooses.

use super::{Result, Service, threads};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::{TenantPk, ThreadId};
use crate::domain::usage::{UsageGroup, UsageSum};
use crate::store::{Page, PageAsk, UsageAsk};

/// The usage of the caller's tenant, or of one thread: the calls whose replies came at `from` or later and before `to`.
pub async fn sums(
    service: &Service,
    caller: &Caller,
    group: UsageGroup,
    thread: Option<&ThreadId>,
    (from, to): (Millis, Millis),
    page: PageAsk,
) -> Result<Page<UsageSum>> {
    let thread = threads::pk_of(service, caller, thread).await?;
    Ok(service.reads.usage(&UsageAsk { tenant: caller.tenant, group, thread, from, to, page }).await?)
}

/// The usage of each tenant, ordered by name: the calls whose replies came at `from` or later and before `to`.
pub async fn of_all_tenants(service: &Service, (from, to): (Millis, Millis), page: PageAsk) -> Result<Page<UsageSum>> {
    let mut tenants = service.reads.tenants().await?;
    tenants.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    let one = PageAsk::first(1);
    let of = |tenant, page| UsageAsk { tenant, group: UsageGroup::Tenant, thread: None, from, to, page };
    let ask = of(TenantPk::NONE, page);
    let (after, _) = ask.after()?;
    let mut sums = Vec::new();
    for (tenant, _) in tenants.into_iter().filter(|(_, name)| *name > after) {
        sums.extend(service.reads.usage(&of(tenant, one.clone())).await?.items);
        if sums.len() > ask.page.limit as usize {
            break;
        }
    }
    Ok(ask.page_of(sums))
}
