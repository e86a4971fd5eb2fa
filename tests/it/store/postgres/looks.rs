//! How much a commit looks at: its own threads, however many there are.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::thread::ThreadProfile;
use pes::store::{Commit, Committed, Fence, NewThread, Store as _, ThreadStore as _};
use sqlx::PgConnection;

use super::{process, transition};
use crate::support::postgres::Database;

/// So few that reading all of them seems cheap to the planner.
const THREADS: i64 = 200;
const COMMITS: i64 = 20;

/// Versions of threads that were looked at until now, by whatever way.
async fn looked_at(watcher: &mut PgConnection) -> i64 {
    // Connections tell what they did at the latest when they end.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pes' AND datname = current_database()";
    while sqlx::query_scalar::<_, i64>(open).fetch_one(&mut *watcher).await.unwrap() > 0 {}
    let read = "SELECT (SELECT coalesce(seq_tup_read, 0) FROM pg_stat_user_tables WHERE relname = 'threads')
        + (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = 'threads')";
    sqlx::query_scalar(read).fetch_one(watcher).await.unwrap()
}

fn creation(pk: ThreadPk) -> Commit {
    let id = format!("t{}", pk.0).into();
    let new =
        NewThread { tenant: TenantPk(1), thread_id: id, core: "pes".into(), created_at: 1, created_by: "ann".into() };
    Commit::creating(pk, new, ThreadProfile::default(), None)
}

#[tokio::test]
async fn a_thread_is_found_without_looking_at_others() {
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let store = process(&database).await;
    for pk in 1..=THREADS {
        assert_eq!(store.commit(creation(ThreadPk(pk))).await.unwrap(), Committed::Done);
    }
    store.close().await;
    drop(store);
    let before = looked_at(&mut watcher).await;

    let store = process(&database).await;
    for nth in 0..COMMITS {
        let fence = Fence { version: nth + 1, ..Fence::NEW };
        let next = Commit { pk: ThreadPk(1), ..transition(fence, nth, "said") };
        assert_eq!(store.commit(next).await.unwrap(), Committed::Done);
        assert_eq!(store.commit(creation(ThreadPk(THREADS + 1 + nth))).await.unwrap(), Committed::Done);
        assert!(store.thread(TenantPk(1), &"t9".into()).await.unwrap().is_some());
    }
    store.close().await;
    drop(store);
    let looked = looked_at(&mut watcher).await - before;
    assert!(
        looked <= COMMITS * 3 * 8,
        "{looked} looks for {COMMITS} transitions, as many new threads, and as many reads"
    );
}
