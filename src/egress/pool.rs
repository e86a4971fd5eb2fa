//! Idle connections, kept for the next request to the same origin. The last response of each was read to its end.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// How long an unused connection is kept.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// How many unused connections are kept to one origin.
const MAX_IDLE_PER_ORIGIN: usize = 256;

#[derive(Default)]
pub(super) struct Pool(Mutex<IdleConnections>);

#[derive(Default)]
struct IdleConnections {
    /// By scheme, host and port; the most recently used is last.
    idle: HashMap<Box<str>, Vec<Idle>>,
    /// Whether a task is running that closes expired connections.
    has_sweeper: bool,
}

struct Idle {
    since: Instant,
    connection: Connection,
}

impl Idle {
    fn is_fresh(&mut self) -> bool {
        self.since.elapsed() < MAX_IDLE_TIME && self.connection.is_reusable()
    }
}

impl Pool {
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        loop {
            let mut idle = self.0.lock().idle.get_mut(origin)?.pop()?;
            if idle.is_fresh() {
                return Some(idle.connection);
            }
        }
    }

    /// Keeps the connection for the next request if it can be reused.
    pub(super) fn put(self: &Arc<Self>, origin: &str, mut connection: Connection) {
        if !connection.is_reusable() {
            return;
        }
        let idle = Idle { since: Instant::now(), connection };
        let mut connections = self.0.lock();
        match connections.idle.get_mut(origin) {
            Some(others) if others.len() >= MAX_IDLE_PER_ORIGIN => return,
            Some(others) => others.push(idle),
            None => {
                connections.idle.insert(origin.into(), vec![idle]);
            }
        }
        if !std::mem::replace(&mut connections.has_sweeper, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }
}

impl IdleConnections {
    fn drop_expired(&mut self) {
        self.idle.retain(|_, idle| {
            idle.retain_mut(Idle::is_fresh);
            !idle.is_empty()
        });
        self.has_sweeper = !self.idle.is_empty();
    }
}

/// Closes expired connections; ends when none is left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(MAX_IDLE_TIME).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut connections = pool.0.lock();
        connections.drop_expired();
        if !connections.has_sweeper {
            return;
        }
    }
}
