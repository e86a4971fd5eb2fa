//! Choosing the store by configuration.

use std::sync::Arc;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::{Result, Store};
use crate::config;

/// Opens what the configuration names: the PostgreSQL of `DATABASE_URL`, else the SQLite file in the data folder.
pub async fn open(config: &config::Store) -> Result<Arc<dyn Store>> {
    if let Some(url) = &config.url {
        return Ok(Arc::new(Postgres::open(url, config.connections).await?));
    }
    Ok(Arc::new(Sqlite::open(&config.data_dir, config.synchronous).await?))
}
