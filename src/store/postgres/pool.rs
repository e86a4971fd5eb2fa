//! The pool of connections for everything but the committers' writes. Every query has a deadline, also when the network
//! swallows its answer.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::fault::error;
use super::writer::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use crate::store::{Error, Pooled, Result};

/// A connection that was idle for longer is pinged before it is used.
const IDLE_WITHOUT_PING: Duration = Duration::from_secs(1);
/// How long the ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// What was given up may still be answered within this time, as most is: then the server is not at it any more.
const GIVEN_UP_TIMEOUT: Duration = Duration::from_millis(500);

/// Longer than the server takes to notice that a connection was closed (`open::CHECK_INTERVAL`).
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Pool {
    connections: PgPool,
    /// One for each session that the server may be at work for, also after its connection was closed here: however many
    /// queries are given up, there are no more such sessions than this pool may have connections.
    places: Arc<Semaphore>,
}

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
        let places = Arc::new(Semaphore::new(usize::try_from(connections).unwrap_or(Semaphore::MAX_PERMITS)));
        Self { connections: options.connect_lazy_with(session), places }
    }

    /// Runs one query over a connection. `Unavailable` when it is not answered in time.
    pub async fn with_query<T>(&self, query: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>) -> Result<T> {
        self.with_connection(async |connection| query(connection).await.map_err(error)).await
    }

    /// Runs several queries over one connection. `Unavailable` when they are not all answered in time.
    pub async fn with_connection<T>(&self, queries: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        let asked = Instant::now();
        let acquired = timeout(CONNECT_TIMEOUT, self.check_out()).await;
        metrics::histogram!("pes_store_pool_wait_seconds").record(asked.elapsed().as_secs_f64());
        let mut checked_out = acquired.map_err(|_| unavailable("no connection to the database is free"))??;
        let result = timeout(ANSWER_TIMEOUT, queries(checked_out.connection())).await;
        let result = result.map_err(|_| unavailable("the database does not answer"))?;
        checked_out.is_answered = true;
        result
    }

    async fn check_out(&self) -> Result<CheckedOut> {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| unavailable("the store is closed"))?;
        let connection = self.connections.acquire().await.map_err(error)?;
        Ok(CheckedOut { connection: Some(connection), place: Some(place), is_answered: false })
    }

    pub fn figures(&self, name: &'static str) -> Pooled {
        Pooled::of(name, &self.connections)
    }

    pub async fn close(&self) {
        self.places.close();
        self.connections.close().await;
    }
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(why.to_owned())
}

/// A connection in use. It goes back to the pool only if all queries were answered: over any other, late answers may
/// still arrive, or none ever again, so it is closed.
struct CheckedOut {
    connection: Option<PoolConnection<Postgres>>,
    place: Option<OwnedSemaphorePermit>,
    is_answered: bool,
}

impl CheckedOut {
    fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only the drop takes it")
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        if let (Some(connection), Some(place)) = (self.connection.take(), self.place.take()) {
            if self.is_answered {
                tokio::spawn(take_back(connection, place));
            } else {
                tokio::spawn(give_up(connection, place));
            }
        }
    }
}

/// The pool asks the connection whether it is well: one that answers nothing any more is dropped.
async fn take_back(mut connection: PoolConnection<Postgres>, place: OwnedSemaphorePermit) {
    let _ = timeout(PING_TIMEOUT, connection.return_to_pool()).await;
    drop(place);
}

/// Closes the connection, and keeps its place for as long as the server may still be at what was asked over it.
async fn give_up(mut connection: PoolConnection<Postgres>, place: OwnedSemaphorePermit) {
    let is_over = matches!(timeout(GIVEN_UP_TIMEOUT, connection.ping()).await, Ok(Ok(())));
    connection.close_on_drop();
    drop(connection);
    if !is_over {
        sleep(NOTICED_WITHIN).await;
    }
    drop(place);
}
