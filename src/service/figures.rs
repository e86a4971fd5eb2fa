//! Counts of open work on the whole server, for metrics. They are cached, so that frequent scrapes do not load the store.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Service;
use crate::domain::spend::Capped;
use crate::store::{Figures, MostSpent, Pooled};

/// How old the cached figures may be.
const MAX_AGE: Duration = Duration::from_secs(15);

/// The last figures, and when they were read. Concurrent callers wait for one read of the store and share its result.
#[derive(Default)]
pub(super) struct CachedFigures(Mutex<Option<(Instant, Figures)>>);

/// Returns `None` if the store cannot be read now.
pub async fn read(service: &Service) -> Option<Figures> {
    let mut cached = service.figures.0.lock().await;
    if let Some((at, figures)) = &*cached
        && at.elapsed() < MAX_AGE
    {
        return Some(figures.clone());
    }
    match service.reads.figures(service.now()).await {
        Ok(figures) => {
            *cached = Some((Instant::now(), figures.clone()));
            Some(figures)
        }
        Err(error) => {
            tracing::warn!(%error, "what is open cannot be counted");
            *cached = None;
            None
        }
    }
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

/// `sqlite` or `postgres`.
pub fn store(service: &Service) -> &'static str {
    if service.store.is_shared() { "postgres" } else { "sqlite" }
}
