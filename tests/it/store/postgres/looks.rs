//! How much is looked at: of a commit its own threads, and of a backlog what is taken of it, however many there are.

use pes::domain::ids::{PayloadId, TenantPk, ThreadPk};
use pes::domain::thread::ThreadProfile;
use pes::engine::step::RowKind;
use pes::store::outbox::{OutboxStore as _, Settled, Settlement, Share};
use pes::store::postgres::Postgres;
use pes::store::{
    Commit, Committed, Fence, NewThread, RetentionStore as _, RowStore as _, Store as _, ThreadStore as _,
};
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
    sqlx::query_scalar(LOOKED_AT).bind(table).fetch_one(watcher).await.unwrap()
}

const LOOKED_AT: &str = "
SELECT (SELECT coalesce(seq_tup_read, 0) FROM pg_stat_user_tables WHERE relname = $1)
    + (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = $1)";

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

/// As other rows of the thread are not, whatever the planner knows of the table.
#[tokio::test]
async fn a_few_payloads_of_a_thread_are_found_without_looking_at_its_others() {
    const PAYLOADS: &str = "
        INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
        SELECT CASE WHEN n <= 5000 THEN 7 ELSE n END, 1, n, 8, 0, 'call_' || n, '{}' FROM generate_series(1, 20000) n";
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let ids = ["call_5", "call_9", "call_4000"].map(PayloadId::from);
    let early = process(&database).await;
    assert_eq!(early.payloads(ThreadPk(7), &ids).await.unwrap(), []);
    sqlx::query(PAYLOADS).execute(&mut watcher).await.unwrap();
    look(early, &ids).await;
    look(process(&database).await, &ids).await;
    sqlx::query("ANALYZE thread_rows").execute(&mut watcher).await.unwrap();
    look(process(&database).await, &ids).await;
    let looked = looked_at(&mut watcher, "thread_rows").await;
    assert!(looked <= 50, "{looked} looks for 3 times 3 payloads, and 3 that are dropped");
}

/// Reads these payloads and drops three others.
async fn look(store: Postgres, ids: &[PayloadId]) {
    assert_eq!(store.payloads(ThreadPk(7), ids).await.unwrap().len(), 3);
    let gone = [10, 20, 30].map(|n| (RowKind::Payload, format!("call_{n}"))).to_vec();
    store.drop_rows(ThreadPk(7), gone).await.unwrap();
    store.close().await;
}

/// Also where much has become due since the plan was made.
#[tokio::test]
async fn deliveries_are_settled_without_looking_at_what_else_is_due() {
    const OVER: &str = "
        INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, event, status, body)
        SELECT 1, 1, NULL, 1, 1, 'over_' || n, 'webhook', 'hook', 'run.finished', 'delivered', '{}'
        FROM generate_series(1, 20000) n";
    const DUE: &str = "
        INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, event, status, body)
        SELECT 1, 1, 50, 1, 1, 'due_' || n, 'webhook', 'hook', 'run.finished', 'pending', '{}'
        FROM generate_series(1, 20000) n";
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let settle = async |store: &Postgres, n: i64| {
        let id = format!("due_{n}").as_str().into();
        let settled = Settlement { id, attempt: 1, settled: Settled::Delivered, said: "200".to_owned() };
        store.settle_deliveries(vec![settled], 60).await.unwrap()
    };
    process(&database).await.close().await;
    sqlx::query(OVER).execute(&mut watcher).await.unwrap();
    sqlx::query("ANALYZE deliveries").execute(&mut watcher).await.unwrap();
    let early = process(&database).await;
    assert_eq!(settle(&early, 1).await, 0);
    sqlx::query(DUE).execute(&mut watcher).await.unwrap();
    for (n, store) in [(1, early), (2, process(&database).await)] {
        assert_eq!(settle(&store, n).await, 1);
        store.close().await;
    }
    let looked = looked_at(&mut watcher, "deliveries").await;
    assert!(looked <= 50, "{looked} looks for 2 of 20,000 deliveries that are due");
}
