//! The usage of model calls: tokens and cost, summed by what the caller asks for.

use super::{Result, Service, threads};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::ThreadId;
use crate::domain::usage::{UsageGroup, UsageSum};
use crate::store::{Page, PageAsk, UsageAsk};

/// The caller's tenant's calls, or a thread's, answered from `from` on and before `to`.
pub async fn sums(
    service: &Service,
    caller: &Caller,
    group: UsageGroup,
    thread: Option<&ThreadId>,
    (from, to): (Millis, Millis),
    page: PageAsk,
) -> Result<Page<UsageSum>> {
    let thread = match thread {
        Some(id) => Some(threads::row(service, caller, id).await?.pk),
        None => None,
    };
    Ok(service.reads.usage(&UsageAsk { tenant: caller.tenant, group, thread, from, to, page }).await?)
}
