//! Counts of what is open on the whole server, for metrics; cached, so that frequent reads cost the store nothing.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Service;
use crate::domain::spend::Capped;
use crate::store::{Figures, MostSpent, Pooled};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(15);

/// The last answer, and when the store was asked. Who comes meanwhile waits for it and takes it.
#[derive(Default)]
pub(super) struct Read(Mutex<Option<(Instant, Figures)>>);

/// `None`: the store did not say so for a while.
pub async fn read(service: &Service) -> Option<Figures> {
    let mut read = service.figures.0.lock().await;
    if let Some((at, figures)) = &*read
        && at.elapsed() < FRESH
    {
        return Some(figures.clone());
    }
    match service.reads.figures(service.now()).await {
        Ok(figures) => {
            *read = Some((Instant::now(), figures.clone()));
            Some(figures)
        }
        Err(error) => {
            tracing::warn!(%error, "what is open cannot be counted");
            *read = None;
            None
        }
    }
}

/// How much of each cap is used by the server, or by the tenant or the key that used the most of its own; 1 is all of it.
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

/// The store's connections, as they stand now.
pub fn pools(service: &Service) -> Vec<Pooled> {
    service.store.pools()
}

/// `sqlite` or `postgres`.
pub fn store(service: &Service) -> &'static str {
    if service.store.is_shared() { "postgres" } else { "sqlite" }
}
