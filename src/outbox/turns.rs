//! Whose delivery is made next: tenants take turns, however long the backlog of one of them is.
//!
//! A free place goes to the tenant that has the fewest. Whoever has none waits until a place is free, and only behind others
//! that have none.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TenantPk;
use crate::store::outbox::{Delivery, Share};

/// The places that the attempts of each tenant have in this process.
///
/// An attempt that gave its place away ([`Unanswered`](super::unanswered::Unanswered)) does not count. As long as no more of
/// them wait than may, it keeps nobody from anything, so its tenant owes nobody a turn for it. If it counted, a tenant with
/// many silent receivers would have more than all others for as long as they are silent, and what it has for its other
/// receivers would never be sent. Nor does its tenant get ahead by it: for each place that it gave away, it must wait for its
/// turn again.
#[derive(Default)]
pub struct Turns(Mutex<Places>);

#[derive(Default)]
struct Places {
    /// No tenant with none.
    taken: HashMap<TenantPk, usize>,
    /// Who was given the last place.
    last: Option<TenantPk>,
}

impl Turns {
    /// Gives away so many places, one after another, each to the tenant of these that has the fewest. Among equals it is the
    /// one that comes next after the one that was given the last place, in the order of their numbers, so that none of them
    /// is always behind another. A place counts as taken once it is taken with [`Place::take`].
    pub(super) fn share(&self, due: &[TenantPk], places: usize) -> Vec<Share> {
        let mut state = self.0.lock();
        let taken = |tenant: &TenantPk| state.taken.get(tenant).copied().unwrap_or_default();
        let mut tenants: Vec<(usize, Share)> =
            due.iter().map(|tenant| (taken(tenant), Share { tenant: *tenant, most: 0 })).collect();
        for _ in 0..places {
            let last = state.last;
            // Those up to the last one come after those behind it.
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

/// Forgets those that were given more places than they had deliveries for: nothing of theirs is left.
pub(super) fn drop_served(due: &mut Vec<TenantPk>, shares: &[Share], claimed: &[Delivery]) {
    let used = |tenant: TenantPk| claimed.iter().filter(|delivery| delivery.tenant == tenant).count();
    due.retain(|tenant| {
        let share = shares.iter().find(|share| share.tenant == *tenant);
        share.is_none_or(|share| used(*tenant) >= share.most as usize)
    });
}

/// The place of an attempt. It is free again when this is dropped, however the attempt ends.
pub(super) struct Place {
    turns: Arc<Turns>,
    tenant: TenantPk,
    is_held: bool,
}

impl Place {
    pub(super) fn take(turns: Arc<Turns>, tenant: TenantPk) -> Self {
        *turns.0.lock().taken.entry(tenant).or_default() += 1;
        Self { turns, tenant, is_held: true }
    }

    /// Leaves it to others while the attempt goes on.
    pub(super) fn give_away(&mut self) {
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

impl Drop for Place {
    fn drop(&mut self) {
        self.give_away();
    }
}

#[cfg(test)]
mod tests;
