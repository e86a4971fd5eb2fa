//! Receivers that do not answer: one of them delays no other.
//!
//! The number of attempts at once is bounded by permits. An attempt that takes long releases its permit to another delivery
//! and waits without one. When too many attempts at one receiver wait like this, nothing more is sent to it until one of
//! them ends.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use crate::domain::ids::TenantPk;
use crate::egress::Destination;

/// After this time an attempt releases its permit.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Bounds the attempts that wait for an answer without a permit: at one receiver, and in all.
const MAX_OF_RECEIVER: usize = 32;
const MAX_IN_ALL: usize = 512;

/// The server at one origin, for one tenant, or for the operator (`None`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    tenant: Option<TenantPk>,
    /// For an agent: its name.
    origin: String,
}

impl Receiver {
    pub(super) fn at(to: &Destination) -> Self {
        let tenant = match to {
            Destination::Operator(_) => None,
            Destination::Untrusted { tenant, .. } => Some(*tenant),
        };
        Self { tenant, origin: to.url().origin().ascii_serialization() }
    }

    pub(super) fn agent(tenant: TenantPk, name: &str) -> Self {
        Self { tenant: Some(tenant), origin: name.to_owned() }
    }
}

/// Nothing was sent, because too many attempts at this receiver are unanswered.
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent: {MAX_OF_RECEIVER} other attempts there are not answered yet")]
pub(super) struct TooManyUnanswered;

/// The number of attempts that released their permits, by receiver.
#[derive(Default)]
pub struct Unanswered(Mutex<HashMap<Receiver, usize>>);

impl Unanswered {
    /// How many permits were released, up to the bound.
    pub(super) fn released_permits(&self) -> usize {
        self.0.lock().values().sum::<usize>().min(MAX_IN_ALL)
    }

    /// Makes an attempt. When it takes long, calls `release`, which frees its permit, and waits on.
    pub(super) async fn attempt<T>(
        &self,
        receiver: Receiver,
        attempt: impl Future<Output = T>,
        release: impl FnOnce(),
    ) -> Result<T, TooManyUnanswered> {
        if self.0.lock().get(&receiver).is_some_and(|waiting| *waiting >= MAX_OF_RECEIVER) {
            return Err(TooManyUnanswered);
        }
        let mut attempt = pin!(attempt);
        if let Ok(made) = timeout(SLOW_AFTER, &mut attempt).await {
            return Ok(made);
        }
        let _waiting = UnansweredAttempt::begin(&self.0, receiver);
        release();
        Ok(attempt.await)
    }
}

/// An attempt that waits for its answer without a permit, counted until it is dropped.
struct UnansweredAttempt<'a> {
    all: &'a Mutex<HashMap<Receiver, usize>>,
    receiver: Receiver,
}

impl<'a> UnansweredAttempt<'a> {
    fn begin(all: &'a Mutex<HashMap<Receiver, usize>>, receiver: Receiver) -> Self {
        *all.lock().entry(receiver.clone()).or_default() += 1;
        Self { all, receiver }
    }
}

impl Drop for UnansweredAttempt<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(waiting) = all.get_mut(&self.receiver) {
            *waiting -= 1;
            if *waiting == 0 {
                all.remove(&self.receiver);
            }
        }
    }
}
