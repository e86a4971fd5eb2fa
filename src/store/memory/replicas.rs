//! Who is alive, what each has in hand, and what became of the dead.

use std::collections::HashMap;

use tokio::time::{Duration, Instant};
use uuid::Uuid;

use super::State;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::domain::thread::ThreadStatus;
use crate::store::{Claimable, Crashes, Registration, ThreadRow};

impl State {
    pub(super) fn is_registered(&self, replica: Option<Uuid>) -> bool {
        replica.is_some_and(|id| self.replicas.contains_key(&id))
    }

    /// The row as it is read, with what is not stored in it.
    pub(super) fn shown(&self, thread: &ThreadRow) -> ThreadRow {
        let (is_owned, crashes) = (self.is_registered(thread.replica), self.crashes_of(thread.pk));
        ThreadRow { is_owned, crashes, ..thread.clone() }
    }

    fn crashes_of(&self, pk: ThreadPk) -> Crashes {
        let all = self.crashes.range((pk, Uuid::nil())..=(pk, Uuid::max())).map(|(_, in_hand)| *in_hand);
        let times = all.clone().count() as i64;
        let alone = all.clone().filter(|in_hand| *in_hand == 1).count() as i64;
        Crashes { times, alone, among: all.min().unwrap_or(0) }
    }

    pub(super) fn register(&mut self, new: &Registration, ttl: Millis) {
        if let Some(former) = new.former {
            self.replicas.remove(&former);
            self.crashes.retain(|(_, replica), _| *replica != former);
        }
        self.end(|replica, _| replica != new.replica);
        self.replicas = HashMap::from([(new.replica, deadline(ttl))]);
    }

    pub(super) fn renew(&mut self, replica: Uuid, ttl: Millis) -> bool {
        let is_alive = self.replicas.get(&replica).is_some_and(|until| *until > Instant::now());
        if is_alive {
            self.replicas.insert(replica, deadline(ttl));
        }
        is_alive
    }

    pub(super) fn end_expired(&mut self) {
        let now = Instant::now();
        self.end(|_, until| until <= now);
    }

    fn end(&mut self, is_ended: impl Fn(Uuid, Instant) -> bool) {
        let ended: Vec<Uuid> =
            self.replicas.iter().filter(|(id, until)| is_ended(**id, **until)).map(|(id, _)| *id).collect();
        for replica in ended {
            self.replicas.remove(&replica);
            let held = self.threads.values().filter(|kept| kept.thread.replica == Some(replica));
            let held: Vec<(ThreadPk, bool)> =
                held.map(|kept| (kept.thread.pk, self.crashes_of(kept.thread.pk).times >= 2)).collect();
            let suspects = held.iter().filter(|(_, is_suspect)| *is_suspect).count();
            for (pk, is_suspect) in &held {
                let in_hand = if *is_suspect { suspects } else { held.len() };
                self.crashes.insert((*pk, replica), in_hand as i64);
            }
        }
    }

    pub(super) fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Vec<Claimable> {
        let is_due = |thread: &ThreadRow| thread.wake_at.is_some_and(|at| at <= now);
        let is_free = |thread: &ThreadRow| match thread.replica == Some(replica) {
            true => thread.fence.lease != Some(lease),
            false => !self.is_registered(thread.replica),
        };
        let found =
            self.overdue(limit, |thread| (is_due(thread) || thread.status == ThreadStatus::Running) && is_free(thread));
        found.into_iter().map(|pk| Claimable { pk, crashes: self.crashes_of(pk) }).collect()
    }

    pub(super) fn reserve(&mut self, replica: Uuid, pks: &[ThreadPk]) -> Vec<ThreadPk> {
        let is_free = |owner: Option<Uuid>| owner == Some(replica) || !self.is_registered(owner);
        let free =
            pks.iter().copied().filter(|pk| self.threads.get(pk).is_some_and(|kept| is_free(kept.thread.replica)));
        let free: Vec<ThreadPk> = free.collect();
        for pk in &free {
            if let Some(kept) = self.threads.get_mut(pk) {
                kept.thread.replica = Some(replica);
            }
        }
        free
    }
}

fn deadline(ttl: Millis) -> Instant {
    Instant::now() + Duration::from_millis(u64::try_from(ttl).unwrap_or(0))
}
