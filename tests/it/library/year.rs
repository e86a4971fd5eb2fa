//! Half a year of all data with a limited lifetime, by a clock that the test advances. Once the oldest data reaches its
//! maximum age, as much is deleted as is written: no table grows, and neither does the database.
//!
//! With `PES_TEST_ALL=1` (`scripts/test --all`) it is a whole year with 20 runs a day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pes::AgentProps;
use pes::auth::{self, IssueResult, NewKey};
use pes::config::env::Variables;
use pes::config::{Config, Synchronous};
use pes::domain::caller::Scope;
use pes::domain::lookup::LookupKey;
use pes::domain::retention::Kept;
use pes::domain::usage::Price;
use pes::runtime::clock::Clock;
use pes::service::once::{Answered, Idempotent};
use pes::service::resources::{self, Schedules};
use pes::service::runs::{self, ProcessAsk};
use pes::service::{audit, housekeeping, schedules, threads};
use pes::store::sqlite::Sqlite;
use pes::store::{SessionRow, Store};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};
use tempfile::TempDir;

use crate::support::clocked::{Clocked, DAY};
use crate::support::collector::Collector;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::store_on;

/// Longer than any run takes.
const WAIT: Duration = Duration::from_secs(30);
const LOG_DAYS: u32 = 9;
const THREAD_DAYS: u32 = 40;
const USAGE_DAYS: u32 = 60;
const AUDIT_DAYS: u32 = 80;

/// Tables that must have had rows; otherwise the test proves nothing about them.
const FILLED: [&str; 16] = [
    "api_keys",
    "audit",
    "audit_checkpoints",
    "bases",
    "deliveries",
    "documents",
    "idempotency",
    "lookup_keys",
    "observations",
    "schedule_state",
    "sessions",
    "spend",
    "thread_rows",
    "threads",
    "tenants",
    "usage_kept",
];

/// Tables that this test does not cover, and what bounds their rows.
const NOT_SHOWN: [(&str, &str); 8] = [
    ("compacted", "a row for each tenant"),
    ("crashes", "a row for each process that died with a thread in hand, until that gets on"),
    ("document_revision", "one row"),
    ("erased_threads", "a row for each thread that was deleted, until the last of its own rows is gone"),
    ("pulse", "one row"),
    ("replicas", "a row for each process that lives"),
    ("restored", "a row from a restore to the next start"),
    ("schema_floor", "one row"),
];

/// Whether a table belongs to SQLx or SQLite.
fn is_foreign(table: &str) -> bool {
    table.starts_with("_sqlx") || table.starts_with("sqlite_")
}

fn terms(config: &mut Config) {
    let retention = &mut config.retention;
    (retention.log_days, retention.thread_days) = (Kept::Days(LOG_DAYS), Kept::Days(THREAD_DAYS));
    (retention.usage_days, retention.audit_days) = (Kept::Days(USAGE_DAYS), Kept::Days(AUDIT_DAYS));
    // With a cap, each day has its row.
    config.prices.insert("demo:*".to_owned(), Price { output_per_million: 1.0, ..Price::default() });
    config.limits.spend.tenant_day_usd = Some(1_000_000.0);
    // Nobody renews it while the clock jumps.
    config.runtime.lease_ms = 1_000 * DAY;
}

/// The storage, for direct access by the test.
enum Stored {
    Sqlite(TempDir),
    Postgres(Database),
}

/// The sizes at the end of a day.
#[derive(Debug)]
struct Size {
    day: i64,
    rows: BTreeMap<String, i64>,
    bytes: i64,
}

impl Stored {
    async fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(folder) => Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap()),
            Self::Postgres(database) => store_on(database).await,
        }
    }

    /// A one-time growth to allow: PostgreSQL's vacuum keeps rows that a concurrent reader can still see, and new rows
    /// go after them. Later rows reuse the space.
    fn spare(&self) -> i64 {
        match self {
            Self::Sqlite(_) => 0,
            Self::Postgres(_) => 512 << 10,
        }
    }

    async fn size(&self, day: i64) -> Size {
        const IN_SQLITE: &str = "SELECT name FROM sqlite_master WHERE type = 'table'";
        const IN_POSTGRES: &str = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
        let count = |table: &str| AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let mut rows = BTreeMap::new();
        let bytes = match self {
            Self::Sqlite(folder) => {
                let url = format!("sqlite://{}", folder.path().join("pes.db").display());
                let mut other = SqliteConnection::connect(&url).await.unwrap();
                let tables: Vec<String> = sqlx::query_scalar(IN_SQLITE).fetch_all(&mut other).await.unwrap();
                for table in tables {
                    let found = sqlx::query_scalar(count(&table)).fetch_one(&mut other).await.unwrap();
                    rows.insert(table, found);
                }
                // In the file, or still in its write-ahead log.
                let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut other).await.unwrap();
                pages * 4_096
            }
            Self::Postgres(database) => {
                let mut other = database.connect().await;
                let tables: Vec<String> = sqlx::query_scalar(IN_POSTGRES).fetch_all(&mut other).await.unwrap();
                for table in tables {
                    let found = sqlx::query_scalar(count(&table)).fetch_one(&mut other).await.unwrap();
                    rows.insert(table, found);
                }
                // As autovacuum does; the test does not wait for that.
                other.execute("VACUUM").await.unwrap();
                let tables = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
                    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
                sqlx::query_scalar(tables).fetch_one(&mut other).await.unwrap()
            }
        };
        Size { day, rows, bytes }
    }
}

#[tokio::test]
async fn once_things_are_as_old_as_they_may_be_no_table_has_more_rows_and_the_file_is_no_larger() {
    as_much_goes_as_comes(Stored::Sqlite(tempfile::tempdir().unwrap())).await;
}

#[tokio::test]
async fn once_things_are_as_old_as_they_may_be_no_table_has_more_rows_and_none_is_larger_on_postgresql() {
    as_much_goes_as_comes(Stored::Postgres(Database::fresh().await)).await;
}

async fn as_much_goes_as_comes(stored: Stored) {
    let is_whole = Variables::of_process().get("PES_TEST_ALL").is_some();
    let (steps, days, runs) = if is_whole { (365, 1, 20) } else { (24, 10, 2) };
    // The oldest rows: audit lines about the deletion of others, which may be as old as those.
    let oldest = 2 * (i64::from(AUDIT_DAYS) + days);
    let mut collector = Collector::start(&[]).await;
    let clocked = Clocked::on(stored.store().await, |config| {
        terms(config);
        config.telemetry.endpoint = Some(collector.endpoint());
    })
    .await;
    let daily = json!({ "id": "daily", "everyMs": DAY, "query": "hello", "overlap": "allow" });
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    resources::create::<Schedules>(service, caller, serde_json::from_value(daily).unwrap(), None).await.unwrap();
    let mut sizes = Vec::new();
    for step in 0..steps {
        clocked.days_pass(days).await;
        housekeeping::sweep(service).await.unwrap();
        one_day(&clocked, step, runs).await;
        soon(told(&*clocked.store, &mut collector)).await;
        sizes.push(stored.size((step + 1) * days).await);
    }
    let full = sizes.iter().find(|size| size.day > oldest).unwrap();
    let end = sizes.last().unwrap();
    let known: BTreeSet<&str> = FILLED.into_iter().chain(NOT_SHOWN.map(|(table, _)| table)).collect();
    let tables: BTreeSet<&str> = end.rows.keys().map(String::as_str).filter(|table| !is_foreign(table)).collect();
    assert_eq!(tables, known, "fill it, or say what bounds its rows");
    for table in FILLED {
        assert!(full.rows[table] > 0, "{table}: {full:#?}");
    }
    for (table, rows) in &end.rows {
        let may_be = full.rows[table] + full.rows[table] / 20 + 2;
        assert!(*rows <= may_be, "{table} has {rows} rows and had {}: {sizes:#?}", full.rows[table]);
    }
    assert!(
        end.bytes <= full.bytes + full.bytes / 20 + stored.spare(),
        "{} bytes, and there were {}: {sizes:#?}",
        end.bytes,
        full.bytes
    );
    clocked.instance.close().await;
}

/// Until the collector has all spans of a day: unsent spans have no maximum age.
async fn told(store: &dyn Store, collector: &mut Collector) {
    collector.told().await;
    while store.next_batched().await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}

/// Some of all data with a limited lifetime.
async fn one_day(clocked: &Clocked, day: i64, runs: i64) {
    let (instance, service, caller) = (&clocked.instance, clocked.instance.service(), clocked.instance.caller());
    let finish = async |thread: String| instance.process(AgentProps::new(thread, "hello")).await.map(drop).unwrap();
    for run in 0..runs {
        finish(format!("day-{day}-{run}")).await;
    }
    // A conversation that continues on the next day.
    finish(format!("two-days-{day}")).await;
    finish(format!("two-days-{}", (day - 1).max(0))).await;

    let lookups = vec![LookupKey { kind: "year", digest: format!("day {day}") }];
    let ask = ProcessAsk { query: "hello".to_owned(), lookups, ..ProcessAsk::default() };
    let key = Idempotent { key: format!("day-{day}"), scope: "process".to_owned(), fingerprint: "f".to_owned() };
    let asked = runs::process(service, caller, &format!("keyed-{day}").into(), ask, Some(key)).await.unwrap();
    let Answered::Fresh(receipt) = asked else { panic!("{asked:?}") };
    runs::wait(service, caller, &receipt.run_id, WAIT).await.unwrap();

    let asks = format!("asks-{day}");
    let answer = clocked.suspend(&asks).await;
    clocked.resume(&asks, answer).await;

    finish(format!("deleted-{day}")).await;
    threads::delete(service, caller, &format!("deleted-{day}").into()).await.unwrap();

    let once = json!({ "id": format!("once-{day}"), "at": clocked.clock.now() + 10_000 * DAY, "query": "hello" });
    resources::create::<Schedules>(service, caller, serde_json::from_value(once).unwrap(), None).await.unwrap();
    resources::delete::<Schedules>(service, caller, &format!("once-{day}")).await.unwrap();

    let expires_at = clocked.clock.now() + DAY;
    let session = SessionRow { hash: format!("{day}"), key_hash: "k".to_owned(), person: None, expires_at };
    clocked.store.add_session(session, 100).await.unwrap();

    let expires_at = Some(clocked.clock.now() + 1);
    let name = format!("day-{day}");
    let key = NewKey { tenant: caller.tenant_name.clone(), name, scopes: vec![Scope::Read], expires_at };
    let made = auth::issue(&*clocked.store, &key, 2, "boss", clocked.clock.now()).await.unwrap();
    assert!(matches!(made, IssueResult::Made(_)), "{made:?}");

    soon(schedules::fire_due(service)).await.unwrap();
    for run in schedules::runs_of(service, caller, "daily", 1).await.unwrap() {
        runs::wait(service, caller, &run.run_id, WAIT).await.unwrap();
    }
    audit::chain(&*clocked.store, None, clocked.clock.now()).await.unwrap();
}
