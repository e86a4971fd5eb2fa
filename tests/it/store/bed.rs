//! A fresh store and common setup for the cases.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pes::config::Synchronous;
use pes::domain::facts::{Fact, StateUpdateBody};
use pes::domain::ids::{RunId, TenantPk, ThreadId, ThreadPk};
use pes::domain::observation::{Observation, ObservationType, Record};
use pes::domain::thread::ThreadProfile;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::Erasure;
use pes::store::sqlite::Sqlite;
use pes::store::{
    AuditRow, Commit, Committed, FoundRow, IdempotencyRow, LeaseChange, NewThread, ObservationAsk, Order, Page,
    PageAsk, Registration, RestoreHold, Result, Store, SuspensionAsk, SuspensionsWanted, ThreadRow,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::store::{migrated, store_on};

#[derive(Clone)]
pub struct Bed {
    pub store: Arc<dyn Store>,
    pub tenant: TenantPk,
    /// What must outlive the store: its folder or its database.
    _home: Arc<dyn Any + Send + Sync>,
}

impl Bed {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
        Self::on(Arc::new(store), Arc::new(folder)).await
    }

    /// Fails if there is no PostgreSQL.
    pub async fn postgres() -> Self {
        let database = migrated().await;
        let store = store_on(&database).await;
        Self::on(store, Arc::new(database)).await
    }

    pub async fn sqlite_compressed() -> Self {
        Self::sqlite().await.compressed().await
    }

    pub async fn postgres_compressed() -> Self {
        Self::postgres().await.compressed().await
    }

    async fn compressed(self) -> Self {
        self.store.compress_log().await.unwrap();
        self
    }

    pub async fn on(store: Arc<dyn Store>, home: Arc<dyn Any + Send + Sync>) -> Self {
        let tenant = store.tenant("default", 1).await.unwrap();
        Self { store, tenant, _home: home }
    }

    pub async fn other_tenant(&self) -> Bed {
        self.of_tenant("other").await
    }

    pub async fn of_tenant(&self, name: &str) -> Bed {
        Bed { tenant: self.store.tenant(name, 1).await.unwrap(), ..self.clone() }
    }

    /// The commit that creates a thread of this id, not sent yet.
    pub fn creating(&self, id: &str) -> Commit {
        let new = NewThread {
            tenant: self.tenant,
            thread_id: id.into(),
            core: "pes".into(),
            created_at: 10,
            created_by: "ann".into(),
        };
        Commit::creating(fresh_pk(), new, ThreadProfile::default(), None)
    }

    pub async fn thread(&self, id: &str) -> ThreadPk {
        let commit = self.creating(id);
        let pk = commit.pk;
        assert_eq!(self.store.commit(commit).await.unwrap(), Committed::Done);
        pk
    }

    /// Erases it at its current version.
    pub async fn erase(&self, pk: ThreadPk) -> bool {
        let version = self.store.thread_by_pk(pk).await.unwrap().map_or(0, |thread| thread.fence.version);
        self.store.delete_thread(self.erasure(pk, version)).await.unwrap()
    }

    pub fn erasure(&self, pk: ThreadPk, version: i64) -> Erasure {
        let audit = AuditRow { thread: ThreadPk::NONE, at: 100, ..self.audit_line(pk, "eve") };
        let (deliveries, spend, calls) = (Vec::new(), Vec::new(), Vec::new());
        Erasure { thread: pk, version, now: 100, deliveries, audit, spend, calls, is_chore: false }
    }

    /// The lines of [`Bed::audit_line`] that are stored.
    pub async fn audit(&self, pk: ThreadPk) -> Vec<AuditRow> {
        let page = PageAsk { limit: 1_000, ..PageAsk::default() };
        self.store.audit(self.tenant, &named(pk), &page).await.unwrap().items
    }

    pub async fn register(&self, replica: Uuid, ttl: i64) {
        self.store.register(registration(replica), ttl).await.unwrap();
    }

    /// For a process that owns nothing yet.
    pub async fn claimable(&self, now: i64, limit: u32) -> Vec<ThreadPk> {
        let found = self.store.claimable(now, Uuid::new_v4(), Uuid::new_v4(), limit).await.unwrap();
        found.into_iter().map(|found| found.pk).collect()
    }

    pub async fn read(&self, pk: ThreadPk) -> ThreadRow {
        self.store.thread_by_pk(pk).await.unwrap().expect("the thread is there")
    }

    /// An empty commit on top of the stored version.
    pub async fn next(&self, pk: ThreadPk) -> Commit {
        after(&self.read(pk).await)
    }

    pub async fn done(&self, commit: Commit) {
        assert_eq!(self.store.commit(commit).await.unwrap(), Committed::Done);
    }

    pub async fn suspensions(&self, wanted: SuspensionsWanted, page: PageAsk) -> Result<Page<FoundRow>> {
        let ask = SuspensionAsk { tenant: self.tenant, thread: None, wanted, page };
        self.store.suspensions(&ask).await
    }

    pub async fn write(&self, pk: ThreadPk, rows: Vec<Row>) {
        let commit = Commit { rows, ..self.next(pk).await };
        self.done(commit).await;
    }

    pub async fn observations(&self, pk: ThreadPk) -> Vec<Observation> {
        let ask = ObservationAsk { limit: 10_000, ..ObservationAsk::default() };
        self.store.observations(pk, &ask).await.unwrap()
    }

    /// Everything that can be read of a thread, to compare before and after.
    pub async fn everything(&self, pk: ThreadPk) -> String {
        let mut rows = Vec::new();
        for kind in RowKind::ALL {
            rows.push(self.store.rows(pk, kind, Order::Ascending, &page(1000)).await.unwrap().items);
        }
        let (thread, audit) = (self.store.load(pk).await.unwrap(), self.audit(pk).await);
        format!("{thread:?} {rows:?} {:?} {audit:?}\n", self.observations(pk).await)
    }

    pub fn key(&self, key: &str) -> IdempotencyRow {
        IdempotencyRow {
            tenant: self.tenant,
            scope: "POST /threads".into(),
            key: key.into(),
            fingerprint: "f00d".into(),
            status: 202,
            body: r#"{"runId":"run_1"}"#.into(),
            location: Some("/runs/run_1".into()),
            created_at: 20,
        }
    }

    pub fn audit_line(&self, pk: ThreadPk, actor: &str) -> AuditRow {
        let detail = json!({"approved": true});
        AuditRow {
            tenant: self.tenant,
            thread: pk,
            thread_id: (pk != ThreadPk::NONE).then(|| named(pk)),
            at: 30,
            actor: actor.into(),
            action: "resume".into(),
            detail,
        }
    }
}

pub fn fresh_pk() -> ThreadPk {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    ThreadPk(NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn registration(replica: Uuid) -> Registration {
    Registration { replica, name: None, former: None }
}

/// The notice at the start after a restore.
pub fn hold_back() -> RestoreHold {
    let (deliveries, schedules) = ("not made".into(), "restored".into());
    let (actor, action, detail) = ("server".into(), "restore".into(), json!({ "asOf": 50 }));
    RestoreHold { now: 600, deliveries, schedules, actor, action, detail }
}

pub fn after(thread: &ThreadRow) -> Commit {
    Commit {
        pk: thread.pk,
        create: None,
        fence: thread.fence.clone(),
        lease: LeaseChange::Keep,
        token: Uuid::new_v4(),
        now: 100,
        head: None,
        profile: None,
        status: thread.status,
        wake_at: thread.wake_at,
        floor: thread.floor,
        rows: Vec::new(),
        last_seq: thread.last_seq,
        records: Vec::new(),
        idempotency: None,
        lookups: Vec::new(),
        audit: Vec::new(),
        deliveries: Vec::new(),
        fire: None,
        spend: Vec::new(),
    }
}

pub fn row(kind: RowKind, id: &str, ord: i64, keep: Keep) -> Row {
    Row { kind, id: id.into(), ord, keep, body: json!({"id": id, "ord": ord}).to_string() }
}

pub fn record(id: &str, kind: ObservationType, run: &str) -> Record {
    Record {
        id: id.into(),
        run_id: RunId::from(run),
        parent_id: None,
        trace_id: "trace".into(),
        timestamp: 5,
        title: String::new(),
        fact: fact(kind),
        metadata: None,
    }
}

/// One of the engine's recorded observations.
fn fact(kind: ObservationType) -> Fact {
    let recorded = include_str!("../../../crates/engine/tests/it/facts.ndjson").lines();
    let mut recorded = recorded.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = recorded.find(|line| line["type"] == kind.as_str()).expect("every type was recorded");
    Fact::read(kind, &found["content"]).unwrap()
}

/// An observation with any content.
pub fn state_update(data: Value) -> Fact {
    StateUpdateBody { data: Some(data), ..StateUpdateBody::of(vec!["test".into()], 1) }.into()
}

pub fn page(limit: u32) -> PageAsk {
    PageAsk { cursor: None, limit }
}

pub fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

/// The thread's name in an audit line.
pub fn named(pk: ThreadPk) -> ThreadId {
    format!("t{}", pk.0).into()
}
