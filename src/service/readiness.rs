//! Whether requests can be served. All requests within a second share one check of the store.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::Service;
use crate::store::Store;

/// How long the result of one check is shared.
const MAX_AGE: Duration = Duration::from_secs(1);
/// How long a check waits for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// One thing that must hold for requests to be served.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    /// Why it does not hold.
    pub failure: Option<String>,
}

/// The last check of the store, and its result: why it failed, if it did.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<StoreCheck>>);

struct StoreCheck {
    since: Instant,
    result: Shared<BoxFuture<'static, Option<String>>>,
}

impl Readiness {
    /// The result of the current check. Begins one if the last is too old. It completes even if all callers stop waiting.
    async fn shared_check(&self, look: impl Future<Output = Option<String>> + Send + 'static) -> Option<String> {
        let found = {
            let mut last = self.0.lock();
            let is_fresh = |last: &StoreCheck| last.since.elapsed() < MAX_AGE || last.result.peek().is_none();
            match last.as_ref().filter(|last| is_fresh(last)) {
                Some(last) => last.result.clone(),
                None => {
                    let checking = tokio::spawn(look)
                        .map(|found| found.unwrap_or_else(|error| Some(format!("the look at it broke: {error}"))));
                    let result = checking.boxed().shared();
                    *last = Some(StoreCheck { since: Instant::now(), result: result.clone() });
                    result
                }
            }
        };
        found.await
    }
}

/// Each check with its present result.
pub async fn checks(service: &Service) -> [Check; 3] {
    let store = service.store.clone();
    let store = service.readiness.shared_check(async move { check_store(&*store).await }).await;
    let draining = service.runtime.is_draining().then(|| "the server is stopping".to_owned());
    let lease = service.runtime.lease_failure();
    [("draining", draining), ("store", store), ("lease", lease)].map(|(name, failure)| Check { name, failure })
}

/// Succeeds if requests can be served. Otherwise returns a sentence for each failure. A lease that could not be renewed is
/// named only if nothing else fails, which would be its cause.
pub async fn check(service: &Service) -> Result<(), Vec<String>> {
    let failing = checks(service).await.into_iter().filter_map(|Check { name, failure }| Some((name, failure?)));
    let failing: Vec<_> = failing.collect();
    let is_told = |name: &str| name != "lease" || failing.len() == 1;
    let told: Vec<String> =
        failing.iter().filter(|(name, _)| is_told(name)).map(|(name, why)| format!("{name}: {why}")).collect();
    if told.is_empty() { Ok(()) } else { Err(told) }
}

/// Why acknowledged commits may be lost when the machine of the database fails. `None`: they cannot.
pub fn weakness(service: &Service) -> Option<String> {
    service.store.weakness()
}

/// Why the store takes no writes, if it takes none.
async fn check_store(store: &dyn Store) -> Option<String> {
    match timeout(STORE_TIMEOUT, store.ping()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it does not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_look_a_second_serves_all_and_outlives_whoever_began_it() {
        let (readiness, looks) = (Arc::new(Readiness::default()), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (readiness, looks) = (readiness.clone(), looks.clone());
            async move {
                let look = async move {
                    let nth = looks.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    Some(nth.to_string())
                };
                readiness.shared_check(look).await
            }
        };
        let first = tokio::spawn(ask());
        tokio::task::yield_now().await;
        first.abort();
        let answers = futures_util::future::join_all((0..100).map(|_| ask())).await;
        assert!(answers.iter().all(|answer| answer.as_deref() == Some("0")), "{answers:?}");
        assert_eq!(ask().await.as_deref(), Some("1"), "it took two seconds, so it is old when it comes");
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        advance(Duration::from_secs(1)).await;
        assert_eq!(ask().await.as_deref(), Some("2"));
    }
}
