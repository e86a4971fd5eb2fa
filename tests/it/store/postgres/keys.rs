//! Processes that store keys of one tenant count each other's.

use std::sync::Arc;

use pes::store::KeyAdded;
use sqlx::{Connection as _, Executor as _};

use super::{process, waiting};
use crate::store::bed::Bed;
use crate::store::keys::{key, line};
use crate::support::http::soon;
use crate::support::postgres::Database;

#[tokio::test]
async fn a_key_that_another_process_is_storing_is_counted() {
    let database = Database::fresh().await;
    let (mut other, mut watcher) = (database.connect().await, database.connect().await);
    let bed = Bed::on(Arc::new(process(&database).await), Arc::new(database)).await;
    let mut storing = other.begin().await.unwrap();
    storing.execute("SELECT pk FROM tenants WHERE name = 'default' FOR NO KEY UPDATE").await.unwrap();
    let first = "INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at)
        SELECT 'k1', pk, 'first', 'hash', 'read', 1 FROM tenants WHERE name = 'default'";
    storing.execute(first).await.unwrap();
    let (key, line, store) = (key(&bed, "k2"), line(&bed, "make key"), bed.store.clone());
    let adding = tokio::spawn(async move { store.add_key(key, 1, line).await });
    soon(async { while waiting(&mut watcher).await == 0 {} }).await;
    storing.commit().await.unwrap();
    assert_eq!(soon(adding).await.unwrap().unwrap(), KeyAdded::TooMany);
}
