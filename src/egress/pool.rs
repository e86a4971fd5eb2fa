//! Idle connections, kept for the next request to the same origin. The last response of each was read to its end.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// How long an unused connection is kept.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// How long before its peer would close it a connection is not used any more. A request that meets the close on its way may
/// have been processed, so it is not sent again.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);
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
    until: Instant,
    connection: Connection,
}

impl Idle {
    fn is_fresh(&mut self) -> bool {
        Instant::now() < self.until && self.connection.is_reusable()
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

    /// Keeps the connection for the next request, up to `max_idle`, if it can be reused.
    pub(super) fn put(self: &Arc<Self>, origin: &str, mut connection: Connection, max_idle: Duration) {
        if max_idle.is_zero() || !connection.is_reusable() {
            return;
        }
        let idle = Idle { until: Instant::now() + max_idle, connection };
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

/// How long a connection may be idle after a response with these headers: less than its peer says that it keeps it.
pub(super) fn max_idle(headers: &HeaderMap) -> Duration {
    let members = headers.get("keep-alive").and_then(|value| value.to_str().ok()).unwrap_or_default().split(',');
    let timeout = members
        .filter_map(|member| member.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"));
    let kept = timeout.and_then(|(_, seconds)| seconds.trim().parse().ok()).map(Duration::from_secs);
    kept.map_or(MAX_IDLE_TIME, |kept| kept.saturating_sub(CLOSE_MARGIN).min(MAX_IDLE_TIME))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_given_up_before_its_peer_closes_it() {
        let table =
            [("timeout=5, max=100", 4), ("max=9, Timeout=20", 19), ("max=9,timeout = 20", 19), ("timeout=0", 0)];
        for (said, seconds) in table.into_iter().chain([("timeout=3600", 30), ("timeout=soon", 30), ("", 30)]) {
            let headers = HeaderMap::from_iter([(http::HeaderName::from_static("keep-alive"), said.parse().unwrap())]);
            assert_eq!(max_idle(&headers).as_secs(), seconds, "{said}");
        }
        assert_eq!(max_idle(&HeaderMap::new()), MAX_IDLE_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_used_again_only_within_its_time() {
        let pool = Arc::new(Pool::default());
        for (millis, is_kept) in [(4_999, true), (5_000, false)] {
            let (ours, _theirs) = tokio::io::duplex(64);
            let connection = Connection::new(Box::new(ours)).await.unwrap();
            pool.put("http://shop.example", connection, Duration::from_secs(5));
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert_eq!(pool.take("http://shop.example").is_some(), is_kept, "after {millis} ms");
        }
    }
}
