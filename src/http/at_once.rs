//! How many requests of one key are answered at once (`limits.requests_at_once_per_key`): event streams and sockets are
//! such requests for as long as they are open.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::caller::{Caller, LOCAL};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

/// Whose requests are counted together.
type Who = (TenantPk, String);

/// How soon one that was refused may ask again: places come free as answers end.
const AGAIN_MS: i64 = 1_000;

pub(crate) struct AtOnce {
    most: usize,
    open: Arc<Mutex<HashMap<Who, usize>>>,
}

/// One request among those of its key, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    who: Who,
    open: Arc<Mutex<HashMap<Who, usize>>>,
}

impl AtOnce {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// `None`: the server is open to all on this machine, who share one name.
    pub(crate) fn take(&self, caller: &Caller) -> Result<Option<Place>, Fault> {
        if caller.name == LOCAL {
            return Ok(None);
        }
        let who = (caller.tenant, caller.name.clone());
        let mut open = self.open.lock();
        let count = open.entry(who.clone()).or_default();
        if *count >= self.most {
            metrics::counter!("pes_rate_limited_total", "limit" => "at_once").increment(1);
            let detail = format!(
                "{} requests, streams and sockets of this key are open; close some, or ask again later.",
                self.most
            );
            return Err(Fault::new(Code::TooManyRequests, detail).retry_after(AGAIN_MS));
        }
        *count += 1;
        Ok(Some(Place { who, open: self.open.clone() }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.who);
            }
        }
    }
}
