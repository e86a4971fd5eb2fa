//! The pool of connections for everything but the committers' writes. Every query has a deadline, also when the network
//! swallows its answer.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres};
use tokio::time::{Instant, timeout};

use super::fault::error;
use super::writer::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use crate::store::{Error, Pooled, Result};

/// A connection that was idle for longer is pinged before it is used.
const IDLE_WITHOUT_PING: Duration = Duration::from_secs(1);
/// How long the ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Pool(PgPool);

impl Pool {
    /// Connects when a connection is needed.
    pub fn lazy(session: PgConnectOptions, connections: u32) -> Self {
        let options = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    Ok(meta.idle_for < IDLE_WITHOUT_PING
                        || matches!(timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))))
                })
            });
        Self(options.connect_lazy_with(session))
    }

    /// Runs one query over a connection. `Unavailable` when it is not answered in time.
    pub async fn with_query<T>(&self, query: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>) -> Result<T> {
        self.with_connection(async |connection| query(connection).await.map_err(error)).await
    }

    /// Runs several queries over one connection. `Unavailable` when they are not all answered in time.
    pub async fn with_connection<T>(&self, queries: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        let asked = Instant::now();
        let acquired = self.0.acquire().await;
        metrics::histogram!("pes_store_pool_wait_seconds").record(asked.elapsed().as_secs_f64());
        let mut checked_out = CheckedOut { connection: acquired.map_err(error)?, is_answered: false };
        let result = timeout(ANSWER_TIMEOUT, queries(&mut checked_out.connection)).await;
        let result = result.map_err(|_| Error::Unavailable("the database does not answer".to_owned()))?;
        checked_out.is_answered = true;
        result
    }

    pub fn figures(&self, name: &'static str) -> Pooled {
        Pooled::of(name, &self.0)
    }

    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// A connection in use. It goes back to the pool only if all queries were answered: over any other, late answers may
/// still arrive, or none ever again, so it is closed.
struct CheckedOut {
    connection: PoolConnection<Postgres>,
    is_answered: bool,
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.close_on_drop();
        }
    }
}
