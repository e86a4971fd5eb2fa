//! Chaining lines of the audit, again and again, beside the commits that write them.

use std::time::Duration;

use tokio::time::sleep;

use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::chain::link;
use crate::store::{Checkpoint, NewLinks, Pace, Result, Store};

/// How often new lines are looked for.
const EVERY: Duration = Duration::from_secs(5);
/// Lines that are chained at once; so many lie at most between two checkpoints.
const BATCH: u32 = 200;

/// Chains, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    let mut behind_since = None;
    loop {
        let since = *behind_since.get_or_insert_with(|| service.now());
        match chain(&*service.store, service.now()).await {
            Ok(()) => behind_since = None,
            Err(error) => tracing::warn!(%error, "lines of the audit are chained a moment later"),
        }
        lags("audit", behind_since.map_or(0, |_| service.now() - since));
        sleep(EVERY).await;
    }
}

/// Chains all lines that are not chained now, but those of tenants whose lines another process chains at this moment.
pub async fn chain(store: &dyn Store, now: Millis) -> Result<()> {
    for tenant in store.tenants_to_chain().await? {
        of_tenant(store, tenant, now).await?;
    }
    Ok(())
}

async fn of_tenant(store: &dyn Store, tenant: TenantPk, now: Millis) -> Result<()> {
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
        let checkpoint = Checkpoint { n, hash, at: now, jws: None };
        let is_done = lines.is_empty() || !store.add_links(NewLinks { tenant, behind, links, checkpoint }).await?;
        if is_done || lines.len() < BATCH as usize {
            return Ok(());
        }
        pace.rest(store).await;
    }
}
