//! How many rows are read: a commit reads only its own threads, and a worker only what it takes of a backlog, whatever
//! the size.

use pes::domain::ids::{PayloadId, TenantPk, ThreadPk};
use pes::domain::run::CallerStatus;
use pes::domain::thread::ThreadProfile;
use pes::domain::usage::UsageGroup;
use pes::engine::step::RowKind;
use pes::store::outbox::{
    Delivery, DeliveryOutcome, DeliveryStatus, OutboxReads as _, OutboxStore as _, Settlement, Share, TargetKind,
};
use pes::store::postgres::Postgres;
use pes::store::{
    Commit, Committed, Fence, FoundRow, KeyStore as _, NewThread, Page, PageAsk, RetentionStore as _, RowStore as _,
    RunsByStatusAsk, Store as _, ThreadReads as _, ThreadStore as _, UsageAsk, UsageReads as _,
};
use sqlx::PgConnection;

use super::{process, transition};
use crate::support::http::until;
use crate::support::postgres::Database;

/// So few that reading all of them seems cheap to the planner.
const THREADS: i64 = 200;
const COMMITS: i64 = 20;

/// Row versions of the table that were read so far, by any access path.
async fn looked_at(watcher: &mut PgConnection, table: &str) -> i64 {
    // A connection reports its statistics at the latest when it closes.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pes' AND datname = current_database()";
    let are_closed = async || sqlx::query_scalar::<_, i64>(open).fetch_one(&mut *watcher).await.unwrap() == 0;
    until("its connections are closed", are_closed).await;
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

/// Whether a process made its plans while the tables were still empty, or later.
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

#[tokio::test]
async fn what_waits_behind_receivers_that_fail_is_not_read_again_before_they_are_tried() {
    const LANES: u32 = 1_000;
    const BACKLOG: &str = "
        INSERT INTO deliveries
            (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
        SELECT 1, 1, 50, 1, 0, 'dlv_' || n, 'push', 'push', 'lane_' || n % 1000, 'task', 'pending', '{}'
        FROM generate_series(0, 49999) n";
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let share = [Share { tenant: TenantPk(1), most: LANES }];
    let failed = |id| Settlement { id, attempt: 1, settled: DeliveryOutcome::Later(300), said: "503".to_owned() };
    let early = process(&database).await;
    assert_eq!(early.settle_deliveries(vec![failed("dlv_0".into())], 100).await.unwrap(), 0);
    sqlx::query(BACKLOG).execute(&mut watcher).await.unwrap();
    let claimed = early.claim_deliveries(&share, 100, 200).await.unwrap();
    let settlements: Vec<_> = claimed.into_iter().map(|claimed| failed(claimed.id)).collect();
    assert_eq!(early.settle_deliveries(settlements, 100).await.unwrap(), 1_000);
    early.close().await;
    drop(early);
    // Entries that were due before are still in the indexes.
    sqlx::query("VACUUM deliveries").execute(&mut watcher).await.unwrap();
    let before = looked_at(&mut watcher, "deliveries").await;
    assert!(before <= 1_000_000, "{before} looks for 50,000 deliveries that were put off");

    let store = process(&database).await;
    for now in 150..250 {
        assert_eq!(store.tenants_due(now).await.unwrap(), []);
        assert!(store.claim_deliveries(&share, now, 300).await.unwrap().is_empty());
        assert_eq!(store.next_single().await.unwrap(), Some(300));
    }
    store.close().await;
    let looked = looked_at(&mut watcher, "deliveries").await - before;
    assert!(looked <= 100 * 20, "{looked} looks of 100 at what is due while nothing is");
}

/// Other rows of the thread are not read, whatever the planner knows of the table.
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

/// Also where many have become due since the plan was made.
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
        let settled = Settlement { id, attempt: 1, settled: DeliveryOutcome::Delivered, said: "200".to_owned() };
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

#[tokio::test]
async fn few_deliveries_of_a_tenant_are_listed_without_looking_at_all() {
    const OVER: &str = "
        INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, event, status, body)
        SELECT 1, 1, NULL, 1, 1, 'dlv_' || n, 'webhook', CASE WHEN n % 20000 = 9 THEN 'seldom' ELSE 'hook' END, 'run.finished',
            CASE WHEN n % 20000 = 7 THEN 'dead' ELSE 'delivered' END, '{}'
        FROM generate_series(1, 50000) n";
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let (tenant, hooks, page) = (TenantPk(1), TargetKind::Webhook, PageAsk { cursor: None, limit: 5 });
    let ids = |page: Page<Delivery>| page.items.into_iter().map(|found| found.id.to_string()).collect::<Vec<_>>();
    let dead = Some(DeliveryStatus::Dead);
    let early = process(&database).await;
    assert_eq!(ids(early.deliveries_of_tenant(tenant, hooks, dead, &page).await.unwrap()), [""; 0]);
    sqlx::query(OVER).execute(&mut watcher).await.unwrap();
    let fresh = process(&database).await;
    sqlx::query("ANALYZE deliveries").execute(&mut watcher).await.unwrap();
    for store in [early, fresh] {
        let found = ids(store.deliveries_of_tenant(tenant, hooks, dead, &page).await.unwrap());
        assert_eq!(found, ["dlv_40007", "dlv_20007", "dlv_7"]);
        let found = ids(store.deliveries_of_tenant(tenant, hooks, None, &page).await.unwrap());
        assert_eq!(found, ["dlv_50000", "dlv_49999", "dlv_49998", "dlv_49997", "dlv_49996"]);
        let found = ids(store.deliveries(tenant, hooks, "seldom", &page).await.unwrap());
        assert_eq!(found, ["dlv_40009", "dlv_20009", "dlv_9"]);
        store.close().await;
    }
    let looked = looked_at(&mut watcher, "deliveries").await;
    assert!(looked <= 100, "{looked} looks for 22 deliveries of 50,000");
}

#[tokio::test]
async fn few_runs_and_calls_of_a_tenant_are_found_without_looking_at_all() {
    const RUNS: &str = r#"
        INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
        SELECT 7, $1, n, k.kind, 0, 'run_' || n,
            CASE WHEN k.kind = 1 THEN '{}' WHEN n % 20000 = 7 THEN '"failed"' ELSE '"completed"' END
        FROM generate_series(1, 50000) n, (VALUES (1), (12)) k (kind)"#;
    const CALLS: &str = r#"
        INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
        SELECT CASE WHEN n % 20000 = 7 THEN 9 ELSE 8 END, $1, n, 11, 0, 'use_' || n,
            '{"run":"r","provider":"p","model":"m","inputTokens":1,"outputTokens":1,"thinkingTokens":0,"cachedInputTokens":0}'
        FROM generate_series(1, 50000) n"#;
    let database = Database::fresh().await;
    let mut watcher = database.connect().await;
    let early = process(&database).await;
    let tenant = early.tenant("default", 1).await.unwrap();
    assert_eq!(early.commit(creation(ThreadPk(7))).await.unwrap(), Committed::Done);
    let page = PageAsk { cursor: None, limit: 5 };
    let failed =
        RunsByStatusAsk { tenant, thread: None, statuses: vec![CallerStatus::Failed], since: None, page: page.clone() };
    let all = RunsByStatusAsk { statuses: vec![], ..failed.clone() };
    let of_run = UsageAsk { tenant, group: UsageGroup::Run, thread: Some(ThreadPk(9)), from: 0, to: i64::MAX, page };
    let ids = |page: Page<FoundRow>| page.items.into_iter().map(|found| found.row.id).collect::<Vec<_>>();
    assert_eq!(ids(early.runs_by_caller_status(&failed).await.unwrap()), [""; 0]);
    assert_eq!(early.usage(&of_run).await.unwrap().items, []);
    for sql in [RUNS, CALLS] {
        sqlx::query(sql).bind(tenant.0).execute(&mut watcher).await.unwrap();
    }
    let fresh = process(&database).await;
    sqlx::query("ANALYZE thread_rows").execute(&mut watcher).await.unwrap();
    for store in [early, fresh] {
        assert_eq!(ids(store.runs_by_caller_status(&failed).await.unwrap()), ["run_40007", "run_20007", "run_7"]);
        assert_eq!(store.count_by_caller_status(&failed).await.unwrap(), 3);
        assert_eq!(ids(store.runs_by_caller_status(&all).await.unwrap()).len(), 5);
        assert_eq!(store.usage(&of_run).await.unwrap().items[0].calls, 3);
        store.close().await;
    }
    let looked = looked_at(&mut watcher, "thread_rows").await;
    assert!(looked <= 100, "{looked} looks for 22 runs and 6 calls of 50,000 each");
}
