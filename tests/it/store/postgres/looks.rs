//! How much is looked at: of a commit its own threads, and of a backlog what is taken of it, however many there are.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::thread::ThreadProfile;
use pes::store::outbox::{OutboxStore as _, Share};
use pes::store::{Commit, Committed, Fence, NewThread, Store as _, ThreadStore as _};
use sqlx::PgConnection;

use super::{process, transition};
use crate::support::postgres::Database;

/// So few that reading all of them seems cheap to the planner.
const THREADS: i64 = 200;
const COMMITS: i64 = 20;

/// Versions of rows of the table that were looked at until now, by whatever way.
async fn looked_at(watcher: &mut PgConnection, table: &str) -> i64 {
    // Connections tell what they did at the latest when they end.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pes' AND datname = current_database()";
    while sqlx::query_scalar::<_, i64>(open).fetch_one(&mut *watcher).await.unwrap() > 0 {}
    let read = "SELECT (SELECT coalesce(seq_tup_read, 0) FROM pg_stat_user_tables WHERE relname = $1)
        + (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = $1)";
    sqlx::query_scalar(read).bind(table).fetch_one(watcher).await.unwrap()
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
    let before = looked_at(&mut watcher, "threads").await;

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
    let looked = looked_at(&mut watcher, "threads").await - before;
    assert!(
        looked <= COMMITS * 3 * 8,
        "{looked} looks for {COMMITS} transitions, as many new threads, and as many reads"
    );
}

/// Whether a process made its plans while there was nothing yet, or later.
#[tokio::test]
async fn what_is_due_of_a_tenant_is_found_without_reading_its_backlog() {
    const BACKLOG: &str = "
        INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, event, status, body)
        SELECT 1, 1 + n / 50000, 50, 1, 0, 'dlv_' || n, 'webhook', 'hook', 'run.finished', 'pending', '{}'
        FROM generate_series(0, 50001) n";
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let shares = [1, 2].map(|tenant| Share { tenant: TenantPk(tenant), most: 1 });
    let early = process(&database).await;
    assert_eq!(early.tenants_due(100).await.unwrap(), []);
    assert!(early.claim_deliveries(&shares, 100, 200).await.unwrap().is_empty());
    sqlx::query(BACKLOG).execute(&mut watcher).await.unwrap();
    for store in [early, process(&database).await] {
        assert_eq!(store.tenants_due(100).await.unwrap(), [TenantPk(1), TenantPk(2)]);
        assert_eq!(store.claim_deliveries(&shares, 100, 200).await.unwrap().len(), 2);
        assert_eq!(store.next_single().await.unwrap(), Some(50));
        assert_eq!(store.next_batched().await.unwrap(), None);
        assert!(store.claim_batch(100, 200, 512).await.unwrap().is_empty());
        store.close().await;
    }
    let looked = looked_at(&mut watcher, "deliveries").await;
    assert!(looked <= 50, "{looked} looks for 4 of 50,002 deliveries");
}
