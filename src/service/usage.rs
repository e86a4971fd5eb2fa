//! The usage of model calls: tokens and cost, summed by what the caller asks for.

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::usage::{UsageGroup, UsageSum};
use crate::store::{Page, PageAsk, UsageAsk};

/// The caller's tenant's calls answered from `from` on and before `to`.
pub async fn sums(
    service: &Service,
    caller: &Caller,
    group: UsageGroup,
    (from, to): (Millis, Millis),
    page: PageAsk,
) -> Result<Page<UsageSum>> {
    Ok(service.reads.usage(&UsageAsk { tenant: caller.tenant, group, from, to, page }).await?)
}
