//! What workers and people do with deliveries.

use pes::domain::ids::{DeliveryId, ThreadPk};
use pes::store::outbox::{Abandonment, Delivery, DeliveryOutcome, Settlement, Share, TargetKind};

use super::{AnyStore, Comparison};

impl Comparison {
    pub async fn claim(&mut self) {
        let (now, until) = (self.now, self.now + 20);
        let shares = self.tenants.map(|tenant| Share { tenant, most: 2 });
        let claimed = if self.random.one_in(3) {
            self.done("claim a batch", async |store| Ok(sorted(store.claim_batch(now, until, 3).await?))).await
        } else {
            self.done("claim", async |store| Ok(sorted(store.claim_deliveries(&shares, now, until).await?))).await
        };
        self.claimed.extend(claimed);
    }

    pub async fn settle(&mut self) {
        let (mut settlements, now) = (Vec::<Settlement>::new(), self.now);
        let mut keys: Vec<String> = Vec::new();
        for _ in 0..self.random.below(4) {
            if self.claimed.is_empty() {
                break;
            }
            let one = self.claimed.swap_remove(self.random.below(self.claimed.len() as u64) as usize);
            // The order in which outcomes of one ordering key, or of one delivery, are recorded is left open.
            let is_second = one.ordering_key.as_ref().is_some_and(|key| keys.contains(key));
            if is_second || settlements.iter().any(|other| other.id == one.id) {
                continue;
            }
            keys.extend(one.ordering_key);
            let settled = match self.random.below(3) {
                0 => DeliveryOutcome::Delivered,
                1 => DeliveryOutcome::Later(now + self.random.number(40)),
                _ => DeliveryOutcome::Dead,
            };
            settlements.push(Settlement { id: one.id, attempt: one.attempts, settled, said: self.random.text() });
        }
        self.done(&settlements, async |store| store.settle_deliveries(settlements.clone(), now).await).await;
    }

    pub async fn replay_or_abandon(&mut self) {
        let (tenant, now) = (self.a_tenant(), self.now);
        if self.random.one_in(4) {
            let (kind, target) = (*self.random.of(TargetKind::ALL), self.random.text());
            let abandonment = Abandonment { tenant, kind, target: &target, why: "gone", now };
            // Where the next step continues is a number of the store itself.
            let abandon =
                async |store: AnyStore| store.abandon_deliveries(&abandonment, 0).await.map(|step| step.count);
            self.done(&abandonment, abandon).await;
            return;
        }
        let id: DeliveryId = format!("d{}", 1 + self.random.below(self.last_delivery + 1)).into();
        let audit = self.sqlite.audit_line(ThreadPk::NONE, &self.random.text());
        let response = self.random.one_in(3).then(|| self.response(tenant));
        let replay =
            async |store: AnyStore| store.replay_delivery(tenant, &id, now, audit.clone(), response.clone()).await;
        self.done(("replay", &id, &response), replay).await;
    }
}

/// Which of the claimed ones comes first is left open.
fn sorted(mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
    deliveries.sort_by(|one, other| one.id.cmp(&other.id));
    deliveries
}
