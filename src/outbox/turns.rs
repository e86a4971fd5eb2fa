//! Which tenant's delivery is sent next: tenants take turns, however long the backlog of one of them is.
//!
//! A free permit goes to the tenant that has the fewest. A tenant without a permit waits until one is free, and only behind
//! other tenants without one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TenantPk;
use crate::store::outbox::{Delivery, Share};

/// The permits that the attempts of each tenant hold in this process.
///
/// An attempt that released its permit early ([`Unanswered`](super::unanswered::Unanswered)) does not count: it delays
/// nobody, as the number of such attempts is bounded. If it counted, a tenant with many silent receivers would hold more
/// than all others for as long as they are silent, and its deliveries to other receivers would never be sent. Its tenant
/// gains nothing by it either: for each permit that it released, it must wait for its turn again.
#[derive(Default)]
pub struct TenantTurns(Mutex<PermitsInUse>);

#[derive(Default)]
struct PermitsInUse {
    /// The permits in use; only tenants that hold one.
    taken: HashMap<TenantPk, usize>,
    /// The tenant that got the last permit.
    last: Option<TenantPk>,
}

impl TenantTurns {
    /// Allots `permits` among the tenants `due`, one after another, each to the tenant that has the fewest. Among equals it
    /// goes to the one whose key follows that of the tenant that got the last permit, so that none of them is always behind
    /// another. A permit counts as in use once it is taken with [`TenantPermit::take`].
    pub(super) fn allot(&self, due: &[TenantPk], permits: usize) -> Vec<Share> {
        let mut state = self.0.lock();
        let taken = |tenant: &TenantPk| state.taken.get(tenant).copied().unwrap_or_default();
        let mut tenants: Vec<(usize, Share)> =
            due.iter().map(|tenant| (taken(tenant), Share { tenant: *tenant, most: 0 })).collect();
        for _ in 0..permits {
            let last = state.last;
            // Keys up to that of the last tenant come after the greater ones.
            let order = |share: &Share| (last.is_some_and(|last| share.tenant <= last), share.tenant);
            let next = tenants.iter_mut().min_by_key(|(has, share)| (*has, order(share)));
            let Some((has, share)) = next else { break };
            *has += 1;
            share.most += 1;
            state.last = Some(share.tenant);
        }
        tenants.into_iter().map(|(_, share)| share).filter(|share| share.most > 0).collect()
    }
}

/// Removes the tenants that got more permits than they had deliveries: nothing of theirs is left to claim.
pub(super) fn drop_served(due: &mut Vec<TenantPk>, shares: &[Share], claimed: &[Delivery]) {
    let used = |tenant: TenantPk| claimed.iter().filter(|delivery| delivery.tenant == tenant).count();
    due.retain(|tenant| {
        let share = shares.iter().find(|share| share.tenant == *tenant);
        share.is_none_or(|share| used(*tenant) >= share.most as usize)
    });
}

/// The permit of an attempt. It is free again when this is dropped, however the attempt ends.
pub(super) struct TenantPermit {
    turns: Arc<TenantTurns>,
    tenant: TenantPk,
    is_held: bool,
}

impl TenantPermit {
    pub(super) fn take(turns: Arc<TenantTurns>, tenant: TenantPk) -> Self {
        *turns.0.lock().taken.entry(tenant).or_default() += 1;
        Self { turns, tenant, is_held: true }
    }

    /// Frees the permit for others while the attempt continues.
    pub(super) fn release(&mut self) {
        if !std::mem::take(&mut self.is_held) {
            return;
        }
        let mut state = self.turns.0.lock();
        if let Some(taken) = state.taken.get_mut(&self.tenant) {
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&self.tenant);
            }
        }
    }
}

impl Drop for TenantPermit {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
