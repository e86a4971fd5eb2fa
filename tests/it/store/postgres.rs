//! Several processes on one database: what only PostgreSQL lets happen.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::observation::{ObservationType, Record};
use pes::domain::thread::{Sheet, ThreadStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::postgres::Postgres;
use pes::store::{Commit, Committed, Fence, LeaseChange, NewThread, ObservationAsk, Store};
use uuid::Uuid;

use crate::support::postgres::Database;

const PK: ThreadPk = ThreadPk(7);
const TTL: i64 = 60_000;

/// Another process.
async fn process(database: &Database) -> Postgres {
    Postgres::open(&database.url().into(), 4).await.expect("the database is ours")
}

fn creation() -> Commit {
    let new = NewThread { tenant: TenantPk(1), thread_id: "t".into(), core: "pes".into(), created_at: 1 };
    Commit::creating(PK, new, Sheet::default(), None)
}

/// A transition with one row and one observation, by whoever holds this fence.
fn transition(fence: Fence, last_seq: i64, said: &str) -> Commit {
    let row = Row { kind: RowKind::Item, id: "i".into(), ord: 1, keep: Keep::Always, body: format!("{said:?}") };
    let record = Record {
        id: format!("obs_{}", Uuid::new_v4()).into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: 1,
        kind: ObservationType::Thoughts,
        title: String::new(),
        content: said.into(),
        metadata: None,
    };
    Commit {
        create: None,
        sheet: None,
        fence,
        last_seq,
        status: ThreadStatus::Running,
        rows: vec![row],
        records: vec![record],
        ..creation()
    }
}

fn claim(fence: Fence, last_seq: i64, replica: Uuid) -> (Commit, Uuid) {
    let lease = Uuid::new_v4();
    let commit = Commit { lease: LeaseChange::Claim { lease, replica }, ..transition(fence, last_seq, "claimed") };
    (commit, lease)
}

async fn said(store: &impl Store) -> Vec<String> {
    let found = store.observations(PK, &ObservationAsk { limit: 100, ..Default::default() }).await.unwrap();
    assert!(found.iter().map(|o| o.seq).eq(1..=found.len() as i64));
    found.iter().map(|o| o.content.as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_stale_owner_writes_nothing() {
    let database = Database::fresh().await;
    let (old, new) = (process(&database).await, process(&database).await);
    let (ours, theirs) = (Uuid::new_v4(), Uuid::new_v4());
    old.register(ours, TTL).await.unwrap();
    new.register(theirs, TTL).await.unwrap();

    assert_eq!(old.commit(creation()).await.unwrap(), Committed::Done);
    let (claiming, lease) = claim(Fence { version: 1, ..Fence::NEW }, 0, ours);
    assert_eq!(old.commit(claiming).await.unwrap(), Committed::Done);
    let held = Fence { epoch: 1, lease: Some(lease), version: 2 };
    assert_eq!(old.commit(transition(held.clone(), 1, "ours")).await.unwrap(), Committed::Done);
    let held = Fence { version: 3, ..held };

    // While its owner is alive nobody takes it; once it is not, anybody may.
    let (taking, taken) = claim(held.clone(), 2, theirs);
    assert_eq!(new.commit(taking.clone()).await.unwrap(), Committed::Stale);
    old.register(ours, 0).await.unwrap();
    assert_eq!(new.claimable(0, 10).await.unwrap(), [PK]);
    assert_eq!(new.commit(taking).await.unwrap(), Committed::Done);

    assert_eq!(old.commit(transition(held, 2, "stale")).await.unwrap(), Committed::Stale);
    let (thread, rows) = new.load(PK).await.unwrap().unwrap();
    assert_eq!(thread.fence, Fence { epoch: 2, lease: Some(taken), version: 4 });
    assert_eq!((thread.replica, thread.last_seq), (Some(theirs), 3));
    assert_eq!(rows[0].body, "\"claimed\"");
    assert_eq!(said(&new).await, ["claimed", "ours", "claimed"]);
    assert!(new.claimable(0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_many_processes_deciding_at_once_one_wins() {
    let database = Database::fresh().await;
    let (one, other) = (process(&database).await, process(&database).await);
    assert_eq!(one.commit(creation()).await.unwrap(), Committed::Done);
    let fence = Fence { version: 1, ..Fence::NEW };
    let decisions = (0..100).map(|n| {
        let store = if n % 2 == 0 { &one } else { &other };
        store.commit(transition(fence.clone(), 0, &n.to_string()))
    });
    let outcomes = futures_util::future::join_all(decisions).await;
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Done))).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.is_ok()));
    assert_eq!(said(&one).await.len(), 1);
}

#[tokio::test]
async fn of_many_processes_creating_one_id_one_wins() {
    let database = Database::fresh().await;
    let (one, other) = (process(&database).await, process(&database).await);
    let creations = (0..40).map(|n| {
        let store = if n % 2 == 0 { &one } else { &other };
        store.commit(Commit { pk: ThreadPk(100 + n), token: Uuid::new_v4(), ..creation() })
    });
    let outcomes = futures_util::future::join_all(creations).await;
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Done))).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Exists))).count(), 39);
}
