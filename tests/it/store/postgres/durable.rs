//! PostgreSQL's settings for durable commits are checked, and connections are reserved for leases and commits.

use std::sync::Arc;

use pes::domain::ids::ThreadPk;
use pes::store::{KeyStore as _, LeaseStore as _, Store};
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{process, waiting};
use crate::store::bed::registration;
use crate::support::http::{soon, until};
use crate::support::postgres::{Cluster, Database};

#[tokio::test]
async fn a_server_that_does_not_sync_is_named() {
    let database = Database::fresh().await;
    let mut admin = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut admin).await.unwrap();
    admin.execute(AssertSqlSafe(format!("ALTER DATABASE {name} SET synchronous_commit = off"))).await.unwrap();
    let why = process(&database).await.weakness().expect("the tests' cluster does not sync");
    assert!(why.contains("fsync is off") && why.contains("full_page_writes is off"), "{why}");
    assert!(!why.contains("synchronous_commit"), "our sessions wait, whatever others do: {why}");
}

#[tokio::test]
async fn a_server_as_it_comes_loses_nothing() {
    let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(&["shared_buffers=16MB"])));
    let database = cluster.database().await;
    assert_eq!(process(&database).await.weakness(), None);
}

/// Health checks and the engine may all have to wait; the renewal of the lease does not.
#[tokio::test]
async fn the_lease_has_a_connection_of_its_own() {
    let database = Database::fresh().await;
    let store = Arc::new(process(&database).await);
    let replica = Uuid::new_v4();
    store.register(registration(replica), 60_000).await.unwrap();
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE pulse, threads IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let pinging = (0..8).map(|_| store.clone()).map(|store| tokio::spawn(async move { store.ping().await }));
    let pinging: Vec<_> = pinging.collect();
    let _looking = looking(&store);
    until("the reads wait", async || waiting(&mut watcher).await > HALF).await;
    assert!(soon(store.renew(replica, 60_000)).await.unwrap().is_renewed());
    lock.rollback().await.unwrap();
    for ping in pinging {
        ping.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_people_read_leaves_the_engine_its_connections() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    let readers = store.for_people().unwrap();
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut looking = looking(&readers);
    until("the reads wait", async || waiting(&mut watcher).await >= HALF).await;
    soon(store.tenant("default", 1)).await.unwrap();
    assert!(looking.try_join_next().is_none(), "people wait all the same");
}

/// Of a process's connections, the engine has one half and requests of people the other.
const HALF: i64 = 2;

/// More reads of a thread than there are connections.
fn looking<S: Store + ?Sized + 'static>(store: &Arc<S>) -> JoinSet<()> {
    let look = |store: Arc<S>| async move { drop(store.thread_by_pk(ThreadPk(1)).await) };
    (0..8).map(|_| look(store.clone())).collect()
}
