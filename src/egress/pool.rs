//! Connections whose last response was read to its end, kept for the next request to the same place.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);
/// How many unused connections are kept to one place.
const MOST_IDLE: usize = 256;

#[derive(Default)]
pub(super) struct Pool(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// By scheme, host and port; the last was used last.
    idle: HashMap<Box<str>, Vec<Idle>>,
    /// Whether a task closes those that are too old.
    is_swept: bool,
}

struct Idle {
    since: Instant,
    connection: Connection,
}

impl Idle {
    fn is_fresh(&mut self) -> bool {
        self.since.elapsed() < IDLE && self.connection.is_reusable()
    }
}

impl Pool {
    pub(super) fn take(&self, place: &str) -> Option<Connection> {
        loop {
            let mut idle = self.0.lock().idle.get_mut(place)?.pop()?;
            if idle.is_fresh() {
                return Some(idle.connection);
            }
        }
    }

    /// Keeps the connection for the next request, unless it cannot serve one.
    pub(super) fn put(self: &Arc<Self>, place: &str, mut connection: Connection) {
        if !connection.is_reusable() {
            return;
        }
        let idle = Idle { since: Instant::now(), connection };
        let mut kept = self.0.lock();
        match kept.idle.get_mut(place) {
            Some(others) if others.len() >= MOST_IDLE => return,
            Some(others) => others.push(idle),
            None => {
                kept.idle.insert(place.into(), vec![idle]);
            }
        }
        if !std::mem::replace(&mut kept.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }
}

impl Kept {
    fn drop_old(&mut self) {
        self.idle.retain(|_, idle| {
            idle.retain_mut(Idle::is_fresh);
            !idle.is_empty()
        });
        self.is_swept = !self.idle.is_empty();
    }
}

/// Closes what nobody took, until nothing is left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut kept = pool.0.lock();
        kept.drop_old();
        if !kept.is_swept {
            return;
        }
    }
}
