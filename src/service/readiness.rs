//! Whether requests can be served. Requests within a second get the same answer, at no further cost for the store.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as OfAll};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::Service;
use crate::store::Store;

/// How long an answer is given to everybody.
const FRESH: Duration = Duration::from_secs(1);
/// How long a look waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the last look found: a sentence for each thing that fails.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<Look>>);

struct Look {
    since: Instant,
    found: OfAll<BoxFuture<'static, Vec<String>>>,
}

impl Readiness {
    /// What the look of this second found; begins it if it is the first to ask. It ends even if nobody waits any more.
    async fn look(&self, look: impl Future<Output = Vec<String>> + Send + 'static) -> Vec<String> {
        let found = {
            let mut last = self.0.lock();
            let is_fresh = |last: &Look| last.since.elapsed() < FRESH || last.found.peek().is_none();
            match last.as_ref().filter(|last| is_fresh(last)) {
                Some(last) => last.found.clone(),
                None => {
                    let looking = tokio::spawn(look).map(|found| {
                        found.unwrap_or_else(|error| vec![format!("the look at the store broke: {error}")])
                    });
                    let found = looking.boxed().shared();
                    *last = Some(Look { since: Instant::now(), found: found.clone() });
                    found
                }
            }
        };
        found.await
    }
}

/// Whether requests can be served; else what fails, a sentence each.
pub async fn check(service: &Service) -> Result<(), Vec<String>> {
    let store = service.store.clone();
    let mut failing = service.readiness.look(async move { look_at(&*store).await }).await;
    if service.runtime.is_draining() {
        failing.insert(0, "draining: the server is stopping".to_owned());
    }
    if !service.runtime.holds_lease() && failing.is_empty() {
        failing.push("lease: it has ended and could not be renewed yet".to_owned());
    }
    if failing.is_empty() { Ok(()) } else { Err(failing) }
}

/// Why what is acknowledged may be lost when the machine of the database fails; `None`: it is not.
pub fn weakness(service: &Service) -> Option<String> {
    service.store.weakness()
}

async fn look_at(store: &dyn Store) -> Vec<String> {
    match timeout(PATIENCE, store.ping()).await {
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
                readiness.look(look).await
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
