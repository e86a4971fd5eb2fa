//! Counts of open work on the whole server, for metrics. They are cached, so that frequent scrapes do not load the store, and
//! left out while the store does not answer, so that a scrape still gets what this process counted itself.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Service;
use crate::domain::spend::Capped;
use crate::store::{Figures, MostSpent, Pooled};

/// How old the cached figures may be.
const MAX_AGE: Duration = Duration::from_secs(15);
/// How long a read may take: well below the ten seconds after which Prometheus gives up a scrape by default.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// How long after a failed read the store is not asked again. Scrapes of several Prometheus servers come close together, and
/// each would wait.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// The result of the last read, and when it ended; `None` for the figures: it failed. Concurrent callers wait for one read of
/// the store and share its result.
#[derive(Default)]
pub(super) struct CachedFigures(Mutex<Option<(Instant, Option<Figures>)>>);

/// Returns `None` if the store cannot be read now, or does not answer soon.
pub async fn read(service: &Service) -> Option<Figures> {
    let mut cached = service.figures.0.lock().await;
    if let Some((at, figures)) = &*cached {
        let max_age = if figures.is_some() { MAX_AGE } else { FAILURE_PAUSE };
        if at.elapsed() < max_age {
            return figures.clone();
        }
    }
    let figures = match timeout(READ_TIMEOUT, service.reads.figures(service.now(), service.wall())).await {
        Ok(Ok(figures)) => Some(figures),
        Ok(Err(error)) => {
            tracing::warn!(%error, "what is open cannot be counted");
            None
        }
        Err(_) => {
            tracing::warn!("what is open cannot be counted: the store does not answer");
            None
        }
    };
    *cached = Some((Instant::now(), figures.clone()));
    figures
}

/// The used share of each cap, by the server or by the tenant or key that used the largest share of its own. 1 is all of it.
pub fn used_of_caps(service: &Service, figures: &Figures) -> [(Capped, f64); Capped::ALL.len()] {
    Capped::ALL.map(|capped| {
        let share = |spent: &MostSpent| {
            let cap = service.runtime.spend_caps(spent.tenant).of(capped).filter(|cap| *cap > 0)?;
            Some(spent.used as f64 / cap as f64)
        };
        let shares = figures.spent.iter().filter(|spent| spent.capped == capped).filter_map(share);
        (capped, shares.fold(0.0, f64::max))
    })
}

/// The current state of the store's connection pools.
pub fn pools(service: &Service) -> Vec<Pooled> {
    service.store.pools()
}

/// How many MCP servers are down, and how many of their tools are off because they changed: for each server of the operator,
/// and for all of tenants together.
pub fn mcp(service: &Service) -> [(&'static str, Vec<(String, usize)>); 2] {
    [("pes_mcp_down_servers", service.mcp.down_servers()), ("pes_mcp_changed_tools", service.mcp.changed_tools())]
}

/// `sqlite` or `postgres`.
pub fn store(service: &Service) -> &'static str {
    if service.store.is_shared() { "postgres" } else { "sqlite" }
}
