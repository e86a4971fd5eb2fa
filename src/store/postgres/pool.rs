//! The connections of everything but the writers: no question waits for its answer for ever, whatever becomes of the wire.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres};
use tokio::time::timeout;

use super::fault::error;
use super::writer::{ANSWER, CONNECT};
use crate::store::{Error, Result};

/// A connection that lay idle for longer is asked whether it still stands.
const FRESH: Duration = Duration::from_secs(1);
/// How long it may take to say so.
const SIGN: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Pool(PgPool);

impl Pool {
    /// Connects when a connection is needed.
    pub fn lazy(session: PgConnectOptions, connections: u32) -> Self {
        let options = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(CONNECT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    Ok(meta.idle_for < FRESH || matches!(timeout(SIGN, connection.ping()).await, Ok(Ok(()))))
                })
            });
        Self(options.connect_lazy_with(session))
    }

    /// One question. `Unavailable` when no answer comes.
    pub async fn ask<T>(&self, ask: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>) -> Result<T> {
        self.talk(async |line| ask(line).await.map_err(error)).await
    }

    /// Several, over one connection. `Unavailable` when they are not answered in time.
    pub async fn talk<T>(&self, talk: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        let mut lent = Lent { connection: self.0.acquire().await.map_err(error)?, is_answered: false };
        let said = timeout(ANSWER, talk(&mut lent.connection)).await;
        let said = said.map_err(|_| Error::Unavailable("the database does not answer".to_owned()))?;
        lent.is_answered = true;
        said
    }

    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// A connection on which something is asked. Given back only if all of it was answered: over any other, answers may come
/// that nobody waits for, or none ever again.
struct Lent {
    connection: PoolConnection<Postgres>,
    is_answered: bool,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.close_on_drop();
        }
    }
}
