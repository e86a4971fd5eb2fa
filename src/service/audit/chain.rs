//! Chaining lines of the audit, again and again, beside the commits that write them.

use std::time::Duration;

use tokio::time::sleep;

use crate::auth::{AuditKey, Signed, signer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::chain::link;
use crate::store::{ChainEnd, Checkpoint, NewLinks, Pace, Result, Store};

/// How often new lines are looked for.
const EVERY: Duration = Duration::from_secs(5);
/// Lines that are chained at once; so many lie at most between two checkpoints.
const BATCH: u32 = 200;

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
    let (store, key) = (&*service.store, service.audit_key.as_deref());
    chain(store, key, service.now()).await?;
    match key {
        Some(key) if !are_signed => sign_ends(store, key, service.now()).await,
        Some(_) | None => Ok(()),
    }
}

/// Chains all lines that are not chained now, but those of tenants whose lines another process chains at this moment.
pub async fn chain(store: &dyn Store, key: Option<&AuditKey>, now: Millis) -> Result<()> {
    for tenant in store.tenants_to_chain().await? {
        of_tenant(store, tenant, key, now).await?;
    }
    Ok(())
}

/// Signs where the chains end that another key signed there, or none: what this key signs counts for all lines before.
pub async fn sign_ends(store: &dyn Store, key: &AuditKey, now: Millis) -> Result<()> {
    for (tenant, name) in store.tenants().await? {
        let ChainEnd { n, hash, jws } = store.chain_end(tenant).await?;
        if n > 0 && jws.as_deref().and_then(signer).as_deref() != Some(key.id()) {
            let checkpoint = signed(Checkpoint { n, hash, at: now, jws: None }, &name, Some(key));
            // Where it ends elsewhere meanwhile, that was signed.
            store.add_links(NewLinks { tenant, behind: n, links: Vec::new(), checkpoint }).await?;
        }
    }
    Ok(())
}

fn signed(checkpoint: Checkpoint, tenant: &str, key: Option<&AuditKey>) -> Checkpoint {
    let jws = key.map(|key| key.sign(Signed::Checkpoint, &checkpoint.payload(tenant)));
    Checkpoint { jws, ..checkpoint }
}

/// Chains the lines of one tenant.
pub(in crate::service) async fn chain_tenant(service: &Service, tenant: TenantPk) -> Result<()> {
    of_tenant(&*service.store, tenant, service.audit_key.as_deref(), service.now()).await
}

/// The same of one tenant.
pub(super) async fn of_tenant(store: &dyn Store, tenant: TenantPk, key: Option<&AuditKey>, now: Millis) -> Result<()> {
    let name = store.tenant_name(tenant).await?.unwrap_or_default();
    loop {
        let pace = Pace::begin(store);
        let end = store.chain_end(tenant).await?;
        let lines = store.unchained_lines(tenant, BATCH).await?;
        let (behind, mut hash) = (end.n, end.hash);
        let mut links = Vec::with_capacity(lines.len());
        for found in &lines {
            hash = link(&hash, &found.line.digest());
            links.push((found.id, hash.clone()));
        }
        let n = behind + links.len() as i64;
        let checkpoint = signed(Checkpoint { n, hash, at: now, jws: None }, &name, key);
        let is_done = lines.is_empty() || !store.add_links(NewLinks { tenant, behind, links, checkpoint }).await?;
        if is_done || lines.len() < BATCH as usize {
            return Ok(());
        }
        pace.rest(store).await;
    }
}
