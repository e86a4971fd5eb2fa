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

/// The last check, and its result: a sentence for each failure.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<StoreCheck>>);

struct StoreCheck {
    since: Instant,
    result: Shared<BoxFuture<'static, Vec<String>>>,
}

impl Readiness {
    /// The result of the current check. Begins one if the last is too old. It completes even if all callers stop waiting.
    async fn shared_check(&self, look: impl Future<Output = Vec<String>> + Send + 'static) -> Vec<String> {
        let found = {
            let mut last = self.0.lock();
            let is_fresh = |last: &StoreCheck| last.since.elapsed() < MAX_AGE || last.result.peek().is_none();
            match last.as_ref().filter(|last| is_fresh(last)) {
                Some(last) => last.result.clone(),
                None => {
                    let checking = tokio::spawn(look).map(|found| {
                        found.unwrap_or_else(|error| vec![format!("the look at the store broke: {error}")])
                    });
                    let result = checking.boxed().shared();
                    *last = Some(StoreCheck { since: Instant::now(), result: result.clone() });
                    result
                }
            }
        };
        found.await
    }
}

/// Succeeds if requests can be served. Otherwise returns a sentence for each failure.
pub async fn check(service: &Service) -> Result<(), Vec<String>> {
    let store = service.store.clone();
    let mut failing = service.readiness.shared_check(async move { check_store(&*store).await }).await;
    if service.runtime.is_draining() {
        failing.insert(0, "draining: the server is stopping".to_owned());
    }
    if !service.runtime.holds_lease() && failing.is_empty() {
        failing.push("lease: it has ended and could not be renewed yet".to_owned());
    }
    if failing.is_empty() { Ok(()) } else { Err(failing) }
}

/// Why acknowledged commits may be lost when the machine of the database fails. `None`: they cannot.
pub fn weakness(service: &Service) -> Option<String> {
    service.store.weakness()
}

async fn check_store(store: &dyn Store) -> Vec<String> {
    match timeout(STORE_TIMEOUT, store.ping()).await {
        Ok(Ok(())) => Vec::new(),
        Ok(Err(error)) => vec![format!("store: {error}")],
        Err(_) => vec!["store: it does not answer in time".to_owned()],
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
                    vec![nth.to_string()]
                };
                readiness.shared_check(look).await
            }
        };
        let first = tokio::spawn(ask());
        tokio::task::yield_now().await;
        first.abort();
        let answers = futures_util::future::join_all((0..100).map(|_| ask())).await;
        assert!(answers.iter().all(|answer| answer == &["0"]), "{answers:?}");
        assert_eq!(ask().await, ["1"], "it took two seconds, so it is old when it comes");
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        advance(Duration::from_secs(1)).await;
        assert_eq!(ask().await, ["2"]);
    }
}
