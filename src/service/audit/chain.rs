//! A background task that chains the lines of the audit, after the commits that wrote them.

use std::time::Duration;

use tokio::time::sleep;

use super::export::checkpoint_json;
use crate::auth::{AuditKey, Signed, signer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::webhook::WebhookEvent;
use crate::outbox::deliveries_to;
use crate::service::Service;
use crate::service::chore_metrics::set_lag;
use crate::store::chain::link;
use crate::store::outbox::TargetKind;
use crate::store::{self, ChainEnd, Checkpoint, NewLinks, Pace, Store};

/// How often the store is polled for new lines.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How many lines are chained at once. At most so many lie between two checkpoints.
const BATCH: u32 = 200;
/// How often it is checked that this process's key signed the ends of the chains.
const SIGN_INTERVAL: Millis = 3_600_000;

/// After this time an unchained line counts as late.
const MAX_CHAIN_LAG: Millis = 10 * 60_000;

/// Chains new lines periodically, until the server drains.
pub(in crate::service) async fn run(service: Service) {
    let (mut behind_since, mut signed_at) = (None, None);
    loop {
        let since = *behind_since.get_or_insert_with(|| service.now());
        match chain_and_sign(&service, signed_at).await {
            Ok(found) => (behind_since, signed_at) = (None, found),
            Err(error) => tracing::warn!(%error, "lines of the audit are chained a moment later"),
        }
        set_lag("audit", behind_since.map_or(0, |_| service.now() - since));
        sleep(POLL_INTERVAL).await;
    }
}

/// Chains all new lines once. Also signs the ends of the chains, unless all were found signed with the server's key within the
/// last hour: while a key is changed, processes with the former one may still run. `signed_at` is when they were found so
/// last, and so is the result.
pub async fn chain_and_sign(service: &Service, signed_at: Option<Millis>) -> store::Result<Option<Millis>> {
    let chainer = Chainer::of(service);
    chainer.all().await?;
    let is_recent = signed_at.is_some_and(|at| (0..SIGN_INTERVAL).contains(&(chainer.begun - at)));
    if chainer.key.is_none() || is_recent {
        return Ok(signed_at);
    }
    let has_signed = chainer.sign_ends().await?;
    Ok((!has_signed).then_some(chainer.begun))
}

/// Chains all unchained lines, except those of tenants whose lines another process is chaining now.
pub async fn chain(store: &dyn Store, key: Option<&AuditKey>, now: Millis) -> store::Result<()> {
    Chainer { store, key, begun: now, service: None, is_chore: true }.all().await
}

/// Signs the end of each chain that this key has not signed there, and returns whether there was one. Its signature vouches
/// for all lines before.
pub async fn sign_ends(store: &dyn Store, key: &AuditKey, now: Millis) -> store::Result<bool> {
    Chainer { store, key: Some(key), begun: now, service: None, is_chore: true }.sign_ends().await
}

/// Chains the lines of one tenant for a waiting request, even if another process is chaining them now.
pub(in crate::service) async fn chain_tenant_now(service: &Service, tenant: TenantPk) -> store::Result<()> {
    Chainer { is_chore: false, ..Chainer::of(service) }.of_tenant(tenant).await
}

/// What chaining works with, and who is notified.
struct Chainer<'a> {
    store: &'a dyn Store,
    key: Option<&'a AuditKey>,
    /// When the chainer was made.
    begun: Millis,
    /// Sends checkpoints to the tenant's webhooks. `None`: nobody is notified.
    service: Option<&'a Service>,
    /// No request waits: shares transactions with other commits, and skips a tenant whose lines another process is chaining.
    is_chore: bool,
}

impl<'a> Chainer<'a> {
    fn of(service: &'a Service) -> Self {
        let (store, key) = (&*service.store, service.audit_key.as_deref());
        Self { store, key, begun: service.now(), service: Some(service), is_chore: true }
    }

    /// The current time, which is later than when the chainer was made: a sweep over all tenants may take minutes.
    fn now(&self) -> Millis {
        self.service.map_or(self.begun, Service::now)
    }

    async fn all(&self) -> store::Result<()> {
        for tenant in self.store.tenants_to_chain().await? {
            match self.of_tenant(tenant).await {
                Err(error) if error.is_of_data() => {
                    let tenant = tenant.0;
                    tracing::error!(%error, tenant, "the tenant's audit is not chained: something of it cannot be read");
                }
                chained => chained?,
            }
        }
        Ok(())
    }

    async fn sign_ends(&self) -> store::Result<bool> {
        let mut has_signed = false;
        for (tenant, name) in self.store.tenants().await? {
            match self.sign_end(tenant, &name).await {
                Err(error) if error.is_of_data() => {
                    let tenant = tenant.0;
                    tracing::error!(%error, tenant, "the end of the tenant's audit is not signed: it cannot be read");
                }
                is_new => has_signed |= is_new?,
            }
        }
        Ok(has_signed)
    }

    /// Signs the end of the tenant's chain, and returns whether this key had not signed it.
    async fn sign_end(&self, tenant: TenantPk, name: &str) -> store::Result<bool> {
        let ChainEnd { n, hash, jws } = self.store.chain_end(tenant).await?;
        if n == 0 || jws.as_deref().and_then(signer).as_deref() == self.key.map(AuditKey::id) {
            return Ok(false);
        }
        // If the chain has grown in the meantime, its new end was signed when it was added.
        self.add(tenant, name, n, Vec::new(), Checkpoint { n, hash, at: self.now(), jws: None }).await?;
        Ok(true)
    }

    async fn of_tenant(&self, tenant: TenantPk) -> store::Result<()> {
        let name = self.store.tenant_name(tenant).await?.unwrap_or_default();
        loop {
            let pace = Pace::begin();
            let end = self.store.chain_end(tenant).await?;
            let lines = self.store.unchained_lines(tenant, BATCH).await?;
            let now = self.now();
            let waits = lines.first().map_or(0, |found| now - found.line.at);
            self.store.chores().overdue(("audit", tenant), waits, MAX_CHAIN_LAG);
            let (after, mut hash) = (end.n, end.hash);
            let mut links = Vec::with_capacity(lines.len());
            for found in &lines {
                hash = link(&hash, &found.line.digest());
                links.push((found.id, hash.clone()));
            }
            let checkpoint = Checkpoint { n: after + links.len() as i64, hash, at: now, jws: None };
            let is_added = !lines.is_empty() && self.add(tenant, &name, after, links, checkpoint).await?;
            // If the lines were not added, another process is chaining them.
            let is_done = if is_added { lines.len() < BATCH as usize } else { lines.is_empty() || self.is_chore };
            if is_done {
                self.store.chores().caught_up(("audit", tenant));
                return Ok(());
            }
            pace.rest(self.store).await;
        }
    }

    /// Signs the checkpoint, and stores it with the links and the deliveries that announce it. Returns `false` if another
    /// process has extended the chain.
    async fn add(
        &self,
        tenant: TenantPk,
        name: &str,
        after: i64,
        links: Vec<(i64, String)>,
        checkpoint: Checkpoint,
    ) -> store::Result<bool> {
        let jws = self.key.map(|key| key.sign(Signed::Checkpoint, &checkpoint.payload(name)));
        let checkpoint = Checkpoint { jws, ..checkpoint };
        let deliveries = self.service.map_or_else(Vec::new, |service| {
            let event = WebhookEvent::AuditCheckpoint;
            let subscribers = service.outbox.webhooks.subscribers(tenant, event);
            let data = checkpoint_json(&checkpoint, name);
            deliveries_to(&subscribers, event, data, checkpoint.at, &mut service.mint())
        });
        let is_announced = !deliveries.is_empty();
        let new = NewLinks { tenant, behind: after, links, checkpoint, deliveries, is_chore: self.is_chore };
        let is_added = self.store.add_links(new).await?;
        if let Some(service) = self.service.filter(|_| is_added && is_announced) {
            service.outbox.wakeup.notify([TargetKind::Webhook]);
        }
        Ok(is_added)
    }
}

#[cfg(test)]
mod tests;
