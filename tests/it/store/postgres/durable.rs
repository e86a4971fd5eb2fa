//! PostgreSQL's settings for durable commits are checked, and connections are reserved for leases and commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pes::domain::ids::ThreadPk;
use pes::store::{Commit, Committed, Fence, KeyStore as _, LeaseChange, LeaseStore as _, Store, ThreadStore as _};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{creation, process, transition, waiting};
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

/// A standby that is away keeps commits waiting. PostgreSQL ends the wait of a connection that it closes, and shows the
/// commit from then on.
#[tokio::test]
async fn a_commit_that_is_found_again_is_done_only_when_the_standby_has_it() {
    let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(&["shared_buffers=16MB", "fsync=off"])));
    let database = cluster.database().await;
    let store = process(&database).await;
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    let mut admin = database.connect().await;
    admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'away'").await.unwrap();
    admin.execute("SELECT pg_reload_conf()").await.unwrap();
    let acknowledged = Arc::new(AtomicI64::new(0));
    let done = acknowledged.clone();
    let committing = tokio::spawn(async move {
        for nth in 0.. {
            let fence = Fence { version: 1 + nth, ..Fence::NEW };
            // A commit that also changes the lease is sent in a batch, whose check of the fence waits for no standby.
            let commit = Commit { lease: LeaseChange::Release, ..transition(fence, nth, "said") };
            assert_eq!(store.commit(commit).await.unwrap(), Committed::Done);
            done.store(nth + 1, Ordering::Relaxed);
        }
    });
    let mut first = Vec::new();
    let waits = async || {
        first = awaiting_standby(&mut admin).await;
        !first.is_empty()
    };
    until("a commit waits for the standby", waits).await;
    let before = acknowledged.load(Ordering::Relaxed);
    sqlx::query("SELECT pg_terminate_backend(unnest($1), 10000)").bind(&first).execute(&mut admin).await.unwrap();
    let waits = async || awaiting_standby(&mut admin).await.iter().any(|pid| !first.contains(pid));
    until("another connection waits for the standby", waits).await;
    assert_eq!(acknowledged.load(Ordering::Relaxed), before, "the standby does not have it");
    committing.abort();
}

/// The connections of the store that wait for a standby.
async fn awaiting_standby(watcher: &mut PgConnection) -> Vec<i32> {
    let pids = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pes' AND wait_event = 'SyncRep'";
    sqlx::query_scalar(pids).fetch_all(watcher).await.unwrap()
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
