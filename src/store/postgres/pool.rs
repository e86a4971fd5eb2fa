//! The connection pool for everything but the committer's writes. Every query has a deadline, even if the network loses its
//! response.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPoolOptions, PgRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{Connection, FromRow, PgPool, Postgres};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::fault::error;
use super::open;
use super::writer::ANSWER_TIMEOUT;
use crate::store::{Error, Pooled, Result};

/// A connection that was idle for longer is pinged before it is used.
pub(super) const IDLE_WITHOUT_PING: Duration = Duration::from_secs(1);
/// How long the ping may take: in a pool at most half of its patience, so that another connection can still be opened.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// An abandoned query is usually finished within this time. Then the server does not work on it any more.
const ABANDONED_TIMEOUT: Duration = Duration::from_millis(500);

/// Longer than the server takes to notice that a connection was closed (`open::CHECK_INTERVAL`).
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the attempt to connect may take that says why there is no connection, and how long its result is used.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(1);
const TRIAL_AGE: Duration = Duration::from_secs(1);

pub(super) type PgQuery<'q> = Query<'q, Postgres, PgArguments>;
type PgQueryScalar<'q, T> = QueryScalar<'q, Postgres, T, PgArguments>;

#[derive(Clone)]
pub(super) struct Pool {
    connections: PgPool,
    /// One permit for each session that the server may still be working for, even after its connection was closed here. So
    /// abandoned queries cannot cause more sessions than this pool may have connections.
    permits: Arc<Semaphore>,
    /// How long a query waits for a connection.
    patience: Duration,
    ping_timeout: Duration,
    session: PgConnectOptions,
    trial: Arc<Mutex<Option<Trial>>>,
}

/// An attempt to connect without the pool, which keeps the errors of its own attempts for itself.
struct Trial {
    ended: Instant,
    /// `None`: it succeeded.
    error: Option<String>,
}

impl Pool {
    /// Connects on demand.
    pub fn lazy(session: PgConnectOptions, connections: u32, patience: Duration) -> Self {
        let ping_timeout = PING_TIMEOUT.min(patience / 2);
        let options = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(patience)
            .test_before_acquire(false)
            .before_acquire(move |connection, meta| {
                let is_fresh = meta.idle_for < IDLE_WITHOUT_PING;
                Box::pin(async move { Ok(is_fresh || answers_ping(connection, ping_timeout).await) })
            });
        let permits = Arc::new(Semaphore::new(usize::try_from(connections).unwrap_or(Semaphore::MAX_PERMITS)));
        let connections = options.connect_lazy_with(session.clone());
        Self { connections, permits, patience, ping_timeout, session, trial: Arc::default() }
    }

    pub async fn fetch_all(&self, query: PgQuery<'_>) -> Result<Vec<PgRow>> {
        self.with_query(async |connection| query.fetch_all(connection).await).await
    }

    pub async fn fetch_optional(&self, query: PgQuery<'_>) -> Result<Option<PgRow>> {
        self.with_query(async |connection| query.fetch_optional(connection).await).await
    }

    pub async fn fetch_one(&self, query: PgQuery<'_>) -> Result<PgRow> {
        self.with_query(async |connection| query.fetch_one(connection).await).await
    }

    /// Returns how many rows were affected.
    pub async fn execute(&self, query: PgQuery<'_>) -> Result<u64> {
        Ok(self.with_query(async |connection| query.execute(connection).await).await?.rows_affected())
    }

    /// The first column of every row.
    pub async fn fetch_scalars<T>(&self, query: PgQueryScalar<'_, T>) -> Result<Vec<T>>
    where
        T: Send + Unpin + 'static,
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        self.with_query(async |connection| query.fetch_all(connection).await).await
    }

    /// The first column of the only row.
    pub async fn fetch_scalar<T>(&self, query: PgQueryScalar<'_, T>) -> Result<T>
    where
        T: Send + Unpin + 'static,
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        self.with_query(async |connection| query.fetch_one(connection).await).await
    }

    /// Runs one query over a connection. `Unavailable` if the response is late.
    pub async fn with_query<T>(&self, query: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>) -> Result<T> {
        self.with_connection(async |connection| query(connection).await.map_err(error)).await
    }

    /// Runs several queries over one connection. `Unavailable` if their responses are late.
    pub async fn with_connection<T>(&self, queries: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        let asked = Instant::now();
        let acquired = timeout(self.patience, self.check_out()).await;
        metrics::histogram!("pes_store_pool_wait_seconds").record(asked.elapsed().as_secs_f64());
        let mut checked_out = match acquired {
            Ok(Ok(checked_out)) => checked_out,
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => return Err(self.why_none().await),
            Ok(Err(sqlx::Error::PoolClosed)) => return Err(unavailable("the store is closed")),
            Ok(Err(other)) => return Err(error(other)),
        };
        let result = timeout(ANSWER_TIMEOUT, queries(checked_out.connection())).await;
        let result = result.map_err(|_| unavailable("the database does not answer"))?;
        checked_out.is_answered = true;
        result
    }

    async fn check_out(&self) -> sqlx::Result<CheckedOut> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = self.connections.acquire().await?;
        let ping_timeout = self.ping_timeout;
        Ok(CheckedOut { connection: Some(connection), permit: Some(permit), ping_timeout, is_answered: false })
    }

    /// Why a query got no connection: the database accepts none, or others use all. Concurrent callers share one attempt.
    async fn why_none(&self) -> Error {
        let mut last = self.trial.lock().await;
        let recent = last.take().filter(|trial| trial.ended.elapsed() < TRIAL_AGE);
        let trial = match recent {
            Some(recent) => recent,
            None => {
                let error = open::connect_error(&self.session, TRIAL_TIMEOUT).await;
                Trial { ended: Instant::now(), error }
            }
        };
        let why = trial.error.clone();
        *last = Some(trial);
        Error::Unavailable(why.unwrap_or_else(|| "no connection to the database is free".to_owned()))
    }

    pub fn figures(&self, name: &'static str) -> Pooled {
        Pooled::of(name, &self.connections)
    }

    pub async fn close(&self) {
        self.permits.close();
        self.connections.close().await;
    }
}

/// Whether the database answers on this connection within this time. It must be closed if not.
pub(super) async fn answers_ping(connection: &mut PgConnection, within: Duration) -> bool {
    matches!(timeout(within, connection.ping()).await, Ok(Ok(())))
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(why.to_owned())
}

/// A connection in use. It returns to the pool only if all responses came. Otherwise it is closed, because late responses
/// may still arrive.
struct CheckedOut {
    connection: Option<PoolConnection<Postgres>>,
    permit: Option<OwnedSemaphorePermit>,
    ping_timeout: Duration,
    is_answered: bool,
}

impl CheckedOut {
    fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only the drop takes it")
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        if let (Some(connection), Some(permit)) = (self.connection.take(), self.permit.take()) {
            if self.is_answered {
                tokio::spawn(take_back(connection, permit, self.ping_timeout));
            } else {
                tokio::spawn(give_up(connection, permit));
            }
        }
    }
}

/// Returns the connection to the pool, which pings it, and drops one that does not respond.
async fn take_back(mut connection: PoolConnection<Postgres>, permit: OwnedSemaphorePermit, ping_timeout: Duration) {
    let _ = timeout(ping_timeout, connection.return_to_pool()).await;
    drop(permit);
}

/// Closes the connection, and holds its permit for as long as the server may still work on its queries.
async fn give_up(mut connection: PoolConnection<Postgres>, permit: OwnedSemaphorePermit) {
    let is_over = matches!(timeout(ABANDONED_TIMEOUT, connection.ping()).await, Ok(Ok(())));
    connection.close_on_drop();
    drop(connection);
    if !is_over {
        sleep(DISCONNECT_TIMEOUT).await;
    }
    drop(permit);
}
