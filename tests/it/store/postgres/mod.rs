//! What only PostgreSQL has: several processes on one database, and a network connection.

mod audit;
mod chain;
mod damaged;
mod durable;
mod fences;
mod full;
mod imports;
mod keys;
mod looks;
mod lost;
mod migrating;
mod open;
mod restricted;
mod shared;
mod view;

use pes::domain::facts::IntentBody;
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::observation::Record;
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::postgres::Postgres;
use pes::store::{Commit, Fence, NewThread, ObservationAsk, Store};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::support::postgres::Database;

const PK: ThreadPk = ThreadPk(7);

/// Another process.
async fn process(database: &Database) -> Postgres {
    Postgres::open(&database.url().into(), 4).await.expect("the database is ours")
}

fn creation() -> Commit {
    let new = NewThread {
        tenant: TenantPk(1),
        thread_id: "t".into(),
        core: "pes".into(),
        created_at: 1,
        created_by: "ann".into(),
    };
    Commit::creating(PK, new, ThreadProfile::default(), None)
}

/// A commit of one row and one observation, under this fence.
fn transition(fence: Fence, last_seq: i64, said: &str) -> Commit {
    let row = Row { kind: RowKind::Item, id: "i".into(), ord: 1, keep: Keep::Always, body: format!("{said:?}") };
    let record = Record {
        id: format!("obs_{}", Uuid::new_v4()).into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: 1,
        title: String::new(),
        fact: IntentBody { intent: said.into() }.into(),
        metadata: None,
    };
    Commit {
        create: None,
        profile: None,
        fence,
        last_seq,
        status: ThreadStatus::Running,
        rows: vec![row],
        records: vec![record],
        ..creation()
    }
}

async fn said(store: &impl Store) -> Vec<String> {
    let found = store.observations(PK, &ObservationAsk { limit: 100, ..Default::default() }).await.unwrap();
    assert!(found.iter().map(|o| o.seq).eq(1..=found.len() as i64));
    found.iter().map(|o| o.content["intent"].as_str().unwrap_or_default().to_owned()).collect()
}

/// How many statements of the store wait for a lock.
async fn waiting(watcher: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'pes' AND datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(count).fetch_one(watcher).await.unwrap()
}
