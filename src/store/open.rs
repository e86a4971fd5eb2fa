//! Choosing the store by configuration.

use std::sync::Arc;
use std::time::Duration;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::{Result, Store};
use crate::config;

/// Opens the same store for reading, beside servers too. Nothing may be written, and nothing is migrated: a store with an
/// older schema is `Unusable`.
pub async fn open_beside(config: &config::Store) -> Result<Arc<dyn Store>> {
    Ok(match &config.url {
        Some(url) => Arc::new(Postgres::open_beside(url, config.connections).await?),
        None => Arc::new(Sqlite::open_beside(&config.data_dir, config.synchronous).await?),
    })
}

/// The schema of a database that a start would migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldSchema {
    /// 0: it has no tables yet.
    pub found: i64,
    pub needed: i64,
}

/// The schema of the database that the configuration names, if `open` would migrate it; this changes nothing. `Unusable` if
/// there is none, or if it cannot be used.
pub async fn old_schema(config: &config::Store) -> Result<Option<OldSchema>> {
    match &config.url {
        Some(url) => Postgres::old_schema(url).await,
        None => Sqlite::old_schema(&config.data_dir, config.synchronous).await,
    }
}

/// That a server with this configuration may open more connections than its database allows.
pub async fn too_few_connections(config: &config::Store) -> Result<Option<String>> {
    match &config.url {
        Some(url) => Postgres::too_few_connections(url, config.connections).await,
        None => Ok(None),
    }
}

/// How long the start waits for PostgreSQL. After a power failure it may start later than this server, and recovers first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns once the database of `DATABASE_URL` accepts connections; without one, at once. For the start of a server: it
/// waits up to a minute for a database that cannot be reached or still starts, where commands fail at once.
pub async fn await_connection(config: &config::Store) -> Result<()> {
    match &config.url {
        Some(url) => Postgres::await_connection(url, PATIENCE).await,
        None => Ok(()),
    }
}

/// Like [`open`], for a command that is about a database that there is: `Unusable` if `open` would make it.
pub async fn open_existing(config: &config::Store) -> Result<Arc<dyn Store>> {
    match &config.url {
        Some(url) => Postgres::check_exists(url).await?,
        None => Sqlite::check_exists(&config.data_dir)?,
    }
    open(config).await
}

/// Opens the store that the configuration names: the PostgreSQL of `DATABASE_URL`, else the SQLite file in the data folder.
/// Warns in the log if the database is set up so that an acknowledged commit may be lost.
pub async fn open(config: &config::Store) -> Result<Arc<dyn Store>> {
    let store: Arc<dyn Store> = match &config.url {
        Some(url) => Arc::new(Postgres::open(url, config.connections).await?),
        None => Arc::new(Sqlite::open(&config.data_dir, config.synchronous).await?),
    };
    if let Some(why) = store.weakness() {
        tracing::warn!("an acknowledged commit may be lost in a power failure: {why}");
    }
    Ok(store)
}
