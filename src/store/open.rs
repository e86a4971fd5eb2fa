//! Choosing the store by configuration.

use std::sync::Arc;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::{Result, Store};
use crate::config;

/// Opens what the configuration names: the PostgreSQL of `DATABASE_URL`, else the SQLite file in the data folder. Says so
/// in the log where acknowledged is not durable.
pub async fn open(config: &config::Store) -> Result<Arc<dyn Store>> {
    let store: Arc<dyn Store> = match &config.url {
        Some(url) => Arc::new(Postgres::open(url, config.connections).await?),
        None => Arc::new(Sqlite::open(&config.data_dir, config.synchronous).await?),
    };
    if let Some(why) = store.weakness() {
        tracing::warn!("acknowledged is not durable here: {why}");
    }
    Ok(store)
}
