//! Receivers that leave attempts unanswered: one of them keeps no other waiting.
//!
//! Only so many attempts are made at once. One that takes long gives its place to another delivery, and waits on beside those.
//! Where many of one receiver wait like this, nothing more is sent to it until one of them is over.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use crate::domain::ids::TenantPk;
use crate::egress::Destination;

/// After it an attempt gives its place away.
const LONG: Duration = Duration::from_secs(1);
/// Attempts at one receiver that wait for an answer beside the others, and at all of them.
const OF_ONE: usize = 32;
const OF_ALL: usize = 512;

/// Whoever answers at one origin, on behalf of one tenant; without one, the operator's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    tenant: Option<TenantPk>,
    /// Of an agent its name.
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

/// Nothing was sent, because so much waits there already.
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent: {OF_ONE} other attempts there are not answered yet")]
pub(super) struct Silent;

/// The attempts that gave their places away, by their receivers.
#[derive(Default)]
pub struct Unanswered(Mutex<HashMap<Receiver, usize>>);

impl Unanswered {
    /// How many places were given away.
    pub(super) fn given_away(&self) -> usize {
        self.0.lock().values().sum::<usize>().min(OF_ALL)
    }

    /// Makes an attempt. Once it takes long, its place is given away, and `freed` is called.
    pub(super) async fn attempt<T>(
        &self,
        receiver: Receiver,
        attempt: impl Future<Output = T>,
        freed: impl FnOnce(),
    ) -> Result<T, Silent> {
        if self.0.lock().get(&receiver).is_some_and(|waiting| *waiting >= OF_ONE) {
            return Err(Silent);
        }
        let mut attempt = pin!(attempt);
        if let Ok(made) = timeout(LONG, &mut attempt).await {
            return Ok(made);
        }
        let _waiting = Waiting::begin(&self.0, receiver);
        freed();
        Ok(attempt.await)
    }
}

/// An attempt that waits for its answer beside the others.
struct Waiting<'a> {
    all: &'a Mutex<HashMap<Receiver, usize>>,
    receiver: Receiver,
}

impl<'a> Waiting<'a> {
    fn begin(all: &'a Mutex<HashMap<Receiver, usize>>, receiver: Receiver) -> Self {
        *all.lock().entry(receiver.clone()).or_default() += 1;
        Self { all, receiver }
    }
}

impl Drop for Waiting<'_> {
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
