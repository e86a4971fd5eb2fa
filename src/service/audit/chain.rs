//! Chaining lines of the audit, again and again, beside the commits that write them.

use std::time::Duration;

use tokio::time::sleep;

use super::export::told;
use crate::auth::{AuditKey, Signed, signer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::chain::link;
use crate::store::outbox::TargetKind;
use crate::store::{ChainEnd, Checkpoint, NewLinks, Pace, Result, Store};

/// How often new lines are looked for.
const EVERY: Duration = Duration::from_secs(5);
/// Lines that are chained at once; so many lie at most between two checkpoints.
const BATCH: u32 = 200;

/// How long a line may wait before its tenant counts as late.
const MAY_WAIT: Millis = 10 * 60_000;

/// Chains, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    let (mut behind_since, mut are_signed) = (None, false);
    loop {
        let since = *behind_since.get_or_insert_with(|| service.now());
        match once(&service, are_signed).await {
            Ok(()) => (behind_since, are_signed) = (None, true),
            Err(error) => tracing::warn!(%error, "lines of the audit are chained a moment later"),
        }
        lags("audit", behind_since.map_or(0, |_| service.now() - since));
        sleep(EVERY).await;
    }
}

async fn once(service: &Service, are_signed: bool) -> Result<()> {
    let sealing = Sealing::of(service);
    sealing.all().await?;
    if sealing.key.is_some() && !are_signed { sealing.sign_ends().await } else { Ok(()) }
}

/// Chains all lines that are not chained now, but those of tenants whose lines another process chains at this moment.
pub async fn chain(store: &dyn Store, key: Option<&AuditKey>, now: Millis) -> Result<()> {
    Sealing { store, key, now, service: None, is_chore: true }.all().await
}

/// Signs where the chains end that another key signed there, or none: what this key signs counts for all lines before.
pub async fn sign_ends(store: &dyn Store, key: &AuditKey, now: Millis) -> Result<()> {
    Sealing { store, key: Some(key), now, service: None, is_chore: true }.sign_ends().await
}

/// Chains the lines of one tenant, for somebody who waits for it: also where another chains lines at this moment.
pub(in crate::service) async fn chain_tenant_now(service: &Service, tenant: TenantPk) -> Result<()> {
    Sealing { is_chore: false, ..Sealing::of(service) }.of_tenant(tenant).await
}

/// How lines are chained, and who is told.
struct Sealing<'a> {
    store: &'a dyn Store,
    key: Option<&'a AuditKey>,
    now: Millis,
    /// Whose webhooks are told of checkpoints; `None`: nobody is.
    service: Option<&'a Service>,
    /// Nobody waits for it: it shares transactions, and leaves the lines to whoever chains at this moment.
    is_chore: bool,
}

impl<'a> Sealing<'a> {
    fn of(service: &'a Service) -> Self {
        let (store, key) = (&*service.store, service.audit_key.as_deref());
        Self { store, key, now: service.now(), service: Some(service), is_chore: true }
    }

    async fn all(&self) -> Result<()> {
        for tenant in self.store.tenants_to_chain().await? {
            self.of_tenant(tenant).await?;
        }
        Ok(())
    }

    async fn sign_ends(&self) -> Result<()> {
        for (tenant, name) in self.store.tenants().await? {
            let ChainEnd { n, hash, jws } = self.store.chain_end(tenant).await?;
            if n > 0 && jws.as_deref().and_then(signer).as_deref() != self.key.map(AuditKey::id) {
                // Where it ends elsewhere meanwhile, that was signed.
                self.add(tenant, &name, n, Vec::new(), Checkpoint { n, hash, at: self.now, jws: None }).await?;
            }
        }
        Ok(())
    }

    async fn of_tenant(&self, tenant: TenantPk) -> Result<()> {
        let name = self.store.tenant_name(tenant).await?.unwrap_or_default();
        loop {
            let pace = Pace::begin();
            let end = self.store.chain_end(tenant).await?;
            let lines = self.store.unchained_lines(tenant, BATCH).await?;
            let now = self.service.map_or(self.now, Service::now);
            let waits = lines.first().map_or(0, |found| now - found.line.at);
            self.store.chores().overdue(("audit", tenant), waits, MAY_WAIT);
            let (behind, mut hash) = (end.n, end.hash);
            let mut links = Vec::with_capacity(lines.len());
            for found in &lines {
                hash = link(&hash, &found.line.digest());
                links.push((found.id, hash.clone()));
            }
            let checkpoint = Checkpoint { n: behind + links.len() as i64, hash, at: self.now, jws: None };
            let is_added = !lines.is_empty() && self.add(tenant, &name, behind, links, checkpoint).await?;
            // What is not added, another chains at this moment.
            let is_done = if is_added { lines.len() < BATCH as usize } else { lines.is_empty() || self.is_chore };
            if is_done {
                self.store.chores().caught_up(("audit", tenant));
                return Ok(());
            }
            pace.rest(self.store).await;
        }
    }

    /// Signs the checkpoint, and stores both with what tells of it.
    async fn add(
        &self,
        tenant: TenantPk,
        name: &str,
        behind: i64,
        links: Vec<(i64, String)>,
        checkpoint: Checkpoint,
    ) -> Result<bool> {
        let jws = self.key.map(|key| key.sign(Signed::Checkpoint, &checkpoint.payload(name)));
        let checkpoint = Checkpoint { jws, ..checkpoint };
        let deliveries = self.service.map_or_else(Vec::new, |service| {
            let mut mint = service.mint();
            service.outbox.directory.announce_checkpoint(tenant, &told(&checkpoint, name), self.now, &mut mint)
        });
        let are_told = !deliveries.is_empty();
        let new = NewLinks { tenant, behind, links, checkpoint, deliveries, is_chore: self.is_chore };
        let is_added = self.store.add_links(new).await?;
        if let Some(service) = self.service.filter(|_| is_added && are_told) {
            service.outbox.wakeup.notify([TargetKind::Webhook]);
        }
        Ok(is_added)
    }
}

#[cfg(test)]
mod tests;
