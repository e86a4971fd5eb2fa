//! The connection breaks during a commit: the store finds out whether it committed, and never guesses. A read that
//! loses its connection fails.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pes::domain::ids::TenantPk;
use pes::store::postgres::Postgres;
use pes::store::{
    Commit, Committed, Error, Fence, IdempotencyRow, LeaseStore as _, Store as _, ThreadReads as _, ThreadRow,
    ThreadStore as _,
};
use sqlx::{Connection, Executor};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{PK, creation, process, said, transition, waiting};
use crate::store::bed::registration;
use crate::support::http::{pass, soon, until};
use crate::support::postgres::Database;
use crate::support::proxy::{Cut, Proxy};

const FRESH: Fence = Fence { version: 1, ..Fence::NEW };

/// A process that reaches the database through a proxy, and a thread in it.
async fn behind_a_proxy(database: &Database) -> (Postgres, Proxy) {
    let proxy = Proxy::before(database.socket()).await;
    let store = Postgres::open(&database.url_through(proxy.port).into(), 4).await.unwrap();
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    // Prepares the statement, so that the next request cut is a commit.
    let stale = transition(Fence::NEW, 0, "stale");
    assert_eq!(store.commit(stale).await.unwrap(), Committed::Stale);
    (store, proxy)
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_done_and_done_once() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    proxy.cut("landed", Cut::After);
    assert_eq!(store.commit(transition(FRESH, 0, "landed")).await.unwrap(), Committed::Done);
    assert!(proxy.has_cut());
    assert_eq!(said(&store).await, ["landed"]);
    assert_eq!(store.thread_by_pk(PK).await.unwrap().unwrap().fence.version, 2);
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_sent_again() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    proxy.cut("unheard", Cut::Before);
    assert_eq!(store.commit(transition(FRESH, 0, "unheard")).await.unwrap(), Committed::Done);
    assert!(proxy.has_cut());
    assert_eq!(said(&store).await, ["unheard"]);
}

#[tokio::test]
async fn a_lost_commit_that_was_stale_stays_stale() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    proxy.cut("late", Cut::After);
    let stale = Fence { version: 0, ..FRESH };
    assert_eq!(store.commit(transition(stale, 0, "late")).await.unwrap(), Committed::Stale);
    assert!(proxy.has_cut());
    assert_eq!(said(&store).await.len(), 0);
}

/// A commit without observations, overtaken by another process before the retry: its token is still found.
#[tokio::test]
async fn a_silent_commit_is_recognised_behind_those_of_others() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    let other = process(&database).await;
    let silent = Commit { records: Vec::new(), ..transition(FRESH, 0, "silent") };
    let blocked = in_flight(&database, &store, &proxy, silent, "silent");
    let overtake = async {
        let fence = Fence { version: 2, ..FRESH };
        while other.commit(transition(fence.clone(), 0, "overtaken")).await.unwrap() != Committed::Done {}
    };
    let (outcome, ()) = soon(async { tokio::join!(blocked, overtake) }).await;
    assert_eq!(outcome, Committed::Done);
    assert_eq!(said(&store).await, ["overtaken"]);
}

#[tokio::test]
async fn an_answer_to_a_key_that_is_lost_is_no_duplicate_of_itself() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    let key = IdempotencyRow {
        tenant: TenantPk(1),
        scope: "POST /threads/t/process".into(),
        key: "k".into(),
        fingerprint: "f".into(),
        status: 202,
        body: "{}".into(),
        location: None,
        created_at: 1,
    };
    let keyed = |version, last_seq, said| Commit {
        idempotency: Some(key.clone()),
        ..transition(Fence { version, ..FRESH }, last_seq, said)
    };
    proxy.cut("first", Cut::After);
    assert_eq!(store.commit(keyed(1, 0, "first")).await.unwrap(), Committed::Done);
    proxy.cut("second", Cut::After);
    assert_eq!(store.commit(keyed(2, 1, "second")).await.unwrap(), Committed::Duplicate);
    assert!(proxy.has_cut());
    assert_eq!(said(&store).await, ["first"]);
}

/// The first attempt is still being written when the retry arrives: the retry waits for it, and is refused.
#[tokio::test]
async fn a_commit_in_flight_is_waited_for() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    let outcome = in_flight(&database, &store, &proxy, transition(FRESH, 0, "in flight"), "in flight").await;
    assert_eq!(outcome, Committed::Done);
    assert_eq!(said(&store).await, ["in flight"]);
}

/// The connection of the writer is lost without a sign, and new ones work: as after a failover of the network address.
#[tokio::test]
async fn a_connection_of_a_writer_that_became_silent_while_idle_keeps_no_commit_waiting() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    proxy.cut("answered", Cut::Later);
    assert_eq!(store.commit(transition(FRESH, 0, "answered")).await.unwrap(), Committed::Done);
    assert!(proxy.has_cut());
    pass(Duration::from_secs(1)).await;
    let next = transition(Fence { version: 2, ..FRESH }, 1, "next");
    assert_eq!(soon(store.commit(next)).await.unwrap(), Committed::Done);
    assert_eq!(said(&store).await, ["answered", "next"]);
}

/// The proxy drops a commit, and the process waits for its answer.
async fn swallowed_commit(database: &Database) -> (Arc<Postgres>, JoinHandle<Result<Committed, Error>>) {
    let (store, proxy) = behind_a_proxy(database).await;
    let store = Arc::new(store);
    proxy.cut("unheard", Cut::Silently);
    let committer = store.clone();
    let committing = tokio::spawn(async move { committer.commit(transition(FRESH, 0, "unheard")).await });
    until("it is swallowed", async || proxy.has_cut()).await;
    (store, committing)
}

#[tokio::test]
async fn a_store_is_not_well_while_a_commit_gets_no_answer_although_others_would() {
    let database = Database::fresh().await;
    let (store, committing) = swallowed_commit(&database).await;
    store.ping().await.unwrap();
    pass(Duration::from_secs(6)).await;
    let ping = store.ping().await;
    assert!(matches!(&ping, Err(Error::Unavailable(why)) if why.contains("no outcome yet")), "{ping:?}");
    // The server is asked whether it still works on it, and does not.
    pass(Duration::from_secs(5)).await;
    assert_eq!(soon(committing).await.unwrap().unwrap(), Committed::Done);
    store.ping().await.unwrap();
    assert_eq!(said(&*store).await, ["unheard"]);
}

/// Else the server could still receive the commit, after another sending of it was refused.
#[tokio::test]
async fn the_server_ends_the_connection_on_which_a_commit_did_not_arrive() {
    const WROTE: &str = "SELECT pid FROM pg_stat_activity
        WHERE application_name = 'pes' AND datname = current_database() AND query LIKE 'WITH %'";
    let database = Database::fresh().await;
    let (_, committing) = swallowed_commit(&database).await;
    let mut watcher = database.connect().await;
    let before: Vec<i32> = sqlx::query_scalar(WROTE).fetch_all(&mut watcher).await.unwrap();
    pass(Duration::from_secs(11)).await;
    assert_eq!(soon(committing).await.unwrap().unwrap(), Committed::Done);
    let left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)";
    let left: i64 = sqlx::query_scalar(left).bind(&before).fetch_one(&mut watcher).await.unwrap();
    assert_eq!(left, before.len() as i64 - 1, "of {before:?}");
}

/// The server is asked twice whether it still works on it. If it were sent again, that would be cut.
#[tokio::test]
async fn a_commit_that_the_server_still_works_on_is_not_sent_again() {
    let database = Database::fresh().await;
    let (store, proxy) = behind_a_proxy(&database).await;
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE thread_rows IN SHARE MODE").await.unwrap();
    let committing = tokio::spawn(async move { store.commit(transition(FRESH, 0, "slow")).await });
    until("it waits", async || waiting(&mut watcher).await == 1).await;
    proxy.cut("slow", Cut::Before);
    for _ in 0..2 {
        let before = proxy.ended();
        pass(Duration::from_secs(10)).await;
        until("the server is asked", async || proxy.ended() > before).await;
    }
    lock.rollback().await.unwrap();
    assert_eq!(soon(committing).await.unwrap().unwrap(), Committed::Done);
    assert!(!proxy.has_cut());
}

#[tokio::test]
async fn sessions_that_the_server_ends_are_opened_again() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    let mut admin = database.connect().await;
    for nth in 0..5 {
        let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE application_name = 'pes' AND datname = current_database()";
        admin.execute(end).await.unwrap();
        let fence = Fence { version: 1 + nth, ..FRESH };
        assert_eq!(store.commit(transition(fence, nth, &nth.to_string())).await.unwrap(), Committed::Done);
    }
    drop(store);
    assert_eq!(said(&process(&database).await).await, ["0", "1", "2", "3", "4"]);
}

/// The proxy drops a read, on the only connection for reads.
async fn swallowed_read(database: &Database) -> (Arc<Postgres>, JoinHandle<Result<Option<ThreadRow>, Error>>) {
    let proxy = Proxy::before(database.socket()).await;
    let store = Arc::new(Postgres::open(&database.url_through(proxy.port).into(), 1).await.unwrap());
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    proxy.cut("swallowed", Cut::Silently);
    let reader = store.clone();
    let reading = tokio::spawn(async move { reader.thread(TenantPk(1), &"swallowed".into()).await });
    until("it is swallowed", async || proxy.has_cut()).await;
    (store, reading)
}

#[tokio::test]
async fn a_read_whose_answer_never_comes_ends_and_the_next_one_is_answered() {
    let database = Database::fresh().await;
    let (store, reading) = swallowed_read(&database).await;
    pass(Duration::from_secs(60)).await;
    let read = soon(reading).await.unwrap();
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    assert!(soon(store.thread(TenantPk(1), &"t".into())).await.unwrap().is_some());
}

#[tokio::test]
async fn a_read_that_is_given_up_leaves_no_connection_behind_that_nobody_can_use() {
    let database = Database::fresh().await;
    let (store, reading) = swallowed_read(&database).await;
    reading.abort();
    assert!(soon(store.thread(TenantPk(1), &"t".into())).await.unwrap().is_some());
}

#[tokio::test]
async fn a_connection_that_is_silent_once_it_has_answered_keeps_nobody_waiting() {
    let database = Database::fresh().await;
    let proxy = Proxy::before(database.socket()).await;
    let store = Postgres::open(&database.url_through(proxy.port).into(), 1).await.unwrap();
    proxy.cut("answered", Cut::Later);
    assert!(soon(store.thread(TenantPk(1), &"answered".into())).await.unwrap().is_none());
    assert!(proxy.has_cut());
    assert!(soon(store.thread(TenantPk(1), &"t".into())).await.unwrap().is_none());
}

/// The pool of the lease has one connection, and waits two seconds for it.
#[tokio::test]
async fn a_connection_of_the_lease_that_is_silent_once_it_has_answered_leaves_time_for_another() {
    let database = Database::fresh().await;
    let proxy = Proxy::before(database.socket()).await;
    let store = Postgres::open(&database.url_through(proxy.port).into(), 1).await.unwrap();
    let replica = Uuid::new_v4();
    store.register(registration(replica), 60_000).await.unwrap();
    // Prepares the statement, so that the next request is the renewal itself.
    assert!(store.renew(replica, 60_000).await.unwrap().is_renewed());
    proxy.cut("last", Cut::Later);
    assert!(soon(store.renew(replica, i64::from_be_bytes(*b"\0\0\0\0last"))).await.unwrap().is_renewed());
    assert!(proxy.has_cut());
    assert!(soon(store.renew(replica, 60_000)).await.unwrap().is_renewed());
}

/// A client that disconnects again and again has no more active sessions than the pool has connections.
#[tokio::test]
async fn reads_that_are_given_up_do_not_pile_up_in_the_server() {
    const AT_WORK: &str = "SELECT pid FROM pg_stat_activity
        WHERE application_name = 'pes' AND datname = current_database() AND wait_event_type = 'Lock'";
    let database = Database::fresh().await;
    let store = Arc::new(Postgres::open(&database.url().into(), 1).await.unwrap());
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (mut seen, mut most) = (HashSet::new(), 0);
    for _ in 0..4 {
        let reader = store.clone();
        let reading = tokio::spawn(async move { reader.thread_by_pk(PK).await });
        let is_sent = async {
            loop {
                let at_work: Vec<i32> = sqlx::query_scalar(AT_WORK).fetch_all(&mut watcher).await.unwrap();
                most = most.max(at_work.len());
                if at_work.into_iter().any(|pid| seen.insert(pid)) {
                    break;
                }
            }
        };
        soon(is_sent).await;
        reading.abort();
    }
    // One that is about to notice may still be counted.
    assert!(most <= 2, "{most} sessions of a pool of one are at work");
    lock.rollback().await.unwrap();
}

#[tokio::test]
async fn what_keeps_a_process_alive_waits_behind_nobodys_reads() {
    let database = Database::fresh().await;
    let store = Arc::new(Postgres::open(&database.url().into(), 1).await.unwrap());
    let replica = Uuid::new_v4();
    store.register(registration(replica), 60_000).await.unwrap();
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let reader = store.clone();
    let reading = tokio::spawn(async move { reader.thread_by_pk(PK).await });
    until("the read waits", async || waiting(&mut watcher).await >= 1).await;
    assert!(soon(store.renew(replica, 60_000)).await.unwrap().is_renewed());
    soon(store.ping()).await.unwrap();
    lock.rollback().await.unwrap();
    assert!(reading.await.unwrap().unwrap().is_none());
}

/// Commits while a lock blocks the server, disconnects the client, and releases the lock once the retry waits.
async fn in_flight(database: &Database, store: &Postgres, proxy: &Proxy, commit: Commit, mark: &str) -> Committed {
    let mut blocker = database.connect().await;
    let mut watcher = database.connect().await;
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE thread_rows IN SHARE MODE").await.unwrap();
    proxy.cut(mark, Cut::During);
    let release = async {
        until("both wait", async || waiting(&mut watcher).await >= 2).await;
        lock.rollback().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(store.commit(commit), release);
    assert!(proxy.has_cut());
    outcome.unwrap()
}
