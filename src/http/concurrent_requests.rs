//! Limits the concurrent requests of one key (`limits.requests_at_once_per_key`). Event streams and sockets count for
//! as long as they are open.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::caller::{Caller, LOCAL};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

/// The key whose requests are counted together.
type KeyOwner = (TenantPk, String);

/// When a refused request may be retried. Slots become free as responses end.
const RETRY_AFTER_MS: i64 = 1_000;

pub(crate) struct ConcurrencyLimit {
    max: usize,
    open: Arc<Mutex<HashMap<KeyOwner, usize>>>,
}

/// One of the key's concurrent requests, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    owner: KeyOwner,
    open: Arc<Mutex<HashMap<KeyOwner, usize>>>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, open: Arc::default() }
    }

    /// `None` on a server without keys, where all local callers share one name.
    pub(crate) fn acquire(&self, caller: &Caller) -> Result<Option<RequestSlot>, Fault> {
        if caller.name == LOCAL {
            return Ok(None);
        }
        let owner = (caller.tenant, caller.name.clone());
        let mut open = self.open.lock();
        let count = open.entry(owner.clone()).or_default();
        if *count >= self.max {
            metrics::counter!("pes_rate_limited_total", "limit" => "at_once").increment(1);
            let detail = format!(
                "{} requests, streams and sockets of this key are open; close some, or ask again later.",
                self.max
            );
            return Err(Fault::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER_MS));
        }
        *count += 1;
        Ok(Some(RequestSlot { owner, open: self.open.clone() }))
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.owner);
            }
        }
    }
}
