//! A store between a runtime and the real one, whose calls can be made to hang or to fail.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use async_trait::async_trait;
use pes::config::Synchronous;
use pes::domain::Millis;
use pes::domain::ids::{DeliveryId, MessageId, PayloadId, RunId, TenantPk, ThreadId, ThreadPk};
use pes::domain::lookup::{FoundRun, LookupKey};
use pes::domain::message::ConversationMessage;
use pes::domain::observation::Observation;
use pes::domain::usage::UsageSum;
use pes::engine::step::{Row, RowKind};
use pes::store::documents::{Document, DocumentKind, DocumentStore, Expected};
use pes::store::outbox::{Delivery, DeliveryStatus, OutboxStore, Settled, TargetKind};
use pes::store::sealed::{SealedKind, SealedRow, SealedStore};
use pes::store::sqlite::Sqlite;
use pes::store::{
    AnswerToStore, AuditRow, AuditStore, Claimable, Commit, Committed, Erasure, Error, FigureStore, Figures, FoundRow,
    IdempotencyRow, IdempotencyStore, KeyRow, KeyStore, LeaseStore, LogStore, LookupStore, Mark, ObservationAsk,
    Outline, Page, PageAsk, Pooled, Registration, Result, Rotation, RowStore, SessionRow, SessionStore, StandingAsk,
    Store, SuspensionAsk, ThreadFilter, ThreadRow, ThreadStore, UsageAsk, UsageStore,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Duration, Instant};
use uuid::Uuid;

thread_local! {
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// A SQLite store that holds nothing yet. Its folder is removed when the thread of the test ends.
pub async fn fresh_store() -> Arc<dyn Store> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap_or_else(|error| panic!("{error}"));
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    Arc::new(store)
}

/// How calls behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Well,
    /// They wait until the mood is better.
    Hangs,
    /// The next one waits for ever, those after it do well.
    HangsOnce,
    /// The next one does well, those after it wait until the mood is better.
    HangsNext,
    Fails,
    /// The next one fails, those after it do well.
    FailsOnce,
}

/// Moods by the name of the call; `*` is that of all others.
type Moods = HashMap<&'static str, Mood>;

pub struct Moody {
    inner: Arc<dyn Store>,
    /// Over which people read, if not over this one.
    readers: Option<Arc<Moody>>,
    moods: watch::Sender<Moods>,
    /// Calls that were made to wait, by name.
    held: watch::Sender<Vec<&'static str>>,
    observations_read: AtomicUsize,
    /// How many answers each batch of the housekeeping forgot.
    forgotten: watch::Sender<Vec<u64>>,
    /// When each registration expires, by the clock of the test; `None`: that is for the real store to say.
    leases: Option<watch::Sender<HashMap<Uuid, Instant>>>,
}

/// A paused clock stands still while this is there. SQLite works on threads of its own: without this, tokio would see
/// nothing to do and go on to the next timer.
struct StoppedClock {
    _until: mpsc::Sender<()>,
}

impl StoppedClock {
    fn begin() -> Self {
        let (until, dropped) = mpsc::channel();
        spawn_blocking(move || dropped.recv());
        Self { _until: until }
    }
}

impl Moody {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::new(inner, None))
    }

    /// Over a store that holds nothing yet.
    pub async fn fresh() -> Arc<Self> {
        Self::over(fresh_store().await)
    }

    /// The same; its leases expire by the clock of the test.
    pub async fn with_leases() -> Arc<Self> {
        let leases = Some(watch::channel(HashMap::new()).0);
        Arc::new(Self { leases, ..Self::new(fresh_store().await, None) })
    }

    /// The same as `over`, and a second one over which people read.
    pub fn apart(inner: Arc<dyn Store>) -> (Arc<Self>, Arc<Self>) {
        let readers = Self::over(inner.clone());
        (Arc::new(Self::new(inner, Some(readers.clone()))), readers)
    }

    fn new(inner: Arc<dyn Store>, readers: Option<Arc<Moody>>) -> Self {
        Self {
            inner,
            readers,
            moods: watch::channel(Moods::new()).0,
            held: watch::channel(Vec::new()).0,
            observations_read: AtomicUsize::new(0),
            forgotten: watch::channel(Vec::new()).0,
            leases: None,
        }
    }

    /// Returns when so many batches of old answers were forgotten: how many answers were in each.
    pub async fn forgets(&self, batches: usize) -> Vec<u64> {
        let mut forgotten = self.forgotten.subscribe();
        forgotten.wait_for(|forgotten| forgotten.len() >= batches).await.expect("the store is there").clone()
    }

    /// How many observations were read since this was asked last.
    pub fn observations_read(&self) -> usize {
        self.observations_read.swap(0, Ordering::SeqCst)
    }

    pub fn set(&self, call: &'static str, mood: Mood) {
        self.moods.send_modify(|moods| _ = moods.insert(call, mood));
    }

    /// Returns when a call of this name has been made to wait.
    pub async fn holds(&self, call: &'static str) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| held.contains(&call)).await.expect("the store is there");
    }

    async fn pass(&self, call: &'static str) -> Result<()> {
        let mut moods = self.moods.subscribe();
        loop {
            let mood = mood_of(&moods.borrow_and_update(), call);
            match mood {
                Mood::Well => return Ok(()),
                Mood::Fails => return Err(Error::Unavailable("it was told to fail".to_owned())),
                Mood::FailsOnce => {
                    self.set(call, Mood::Well);
                    return Err(Error::Unavailable("it was told to fail".to_owned()));
                }
                Mood::HangsOnce => {
                    self.set(call, Mood::Well);
                    self.held.send_modify(|held| held.push(call));
                    std::future::pending().await
                }
                Mood::HangsNext => {
                    self.set(call, Mood::Hangs);
                    return Ok(());
                }
                Mood::Hangs => {
                    self.held.send_modify(|held| held.push(call));
                    moods.changed().await.expect("the store is there");
                }
            }
        }
    }
}

fn expiry(ttl: Millis) -> Instant {
    Instant::now() + Duration::from_millis(ttl.unsigned_abs())
}

fn mood_of(moods: &Moods, call: &str) -> Mood {
    moods.get(call).or(moods.get("*")).copied().unwrap_or_default()
}

macro_rules! passed_on {
    ($trait:ident { $($own:tt)* } $($call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $trait for Moody {
            $($own)*
            $(async fn $call(&self, $($name: $type),*) -> Result<$answer> {
                self.pass(stringify!($call)).await?;
                let _clock = StoppedClock::begin();
                self.inner.$call($($name),*).await
            })*
        }
    };
}

passed_on! {
    ThreadStore {}
    commit(commit: Commit) -> Committed;
    thread(tenant: TenantPk, id: &ThreadId) -> Option<ThreadRow>;
    thread_by_pk(pk: ThreadPk) -> Option<ThreadRow>;
    threads_by_pk(pks: &[ThreadPk]) -> Vec<ThreadRow>;
    load(pk: ThreadPk) -> Option<(ThreadRow, Vec<Row>)>;
    marks(pks: &[ThreadPk]) -> Vec<Mark>;
    recent_threads(tenant: TenantPk, since: Millis) -> Vec<(ThreadPk, ThreadId, i64)>;
    outlines(pks: &[ThreadPk]) -> Vec<Outline>;
    titles(pks: &[ThreadPk]) -> Vec<(ThreadPk, String)>;
    threads(tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Page<ThreadRow>;
    delete_thread(erasure: Erasure) -> bool;
}

passed_on! {
    RowStore {}
    row(pk: ThreadPk, kind: RowKind, id: &str) -> Option<Row>;
    find_row(tenant: TenantPk, kind: RowKind, id: &str) -> Option<FoundRow>;
    rows(pk: ThreadPk, kind: RowKind, descending: bool, page: &PageAsk) -> Page<Row>;
    messages(pk: ThreadPk, page: &PageAsk) -> Page<Row>;
    history(pk: ThreadPk, before: &MessageId, limit: u32) -> Vec<ConversationMessage>;
    payloads(pk: ThreadPk, ids: &[PayloadId]) -> Vec<(PayloadId, Arc<Value>)>;
    rows_by_id(wanted: &[(ThreadPk, RowKind, String)]) -> Vec<(ThreadPk, Row)>;
    suspensions(ask: &SuspensionAsk) -> Page<FoundRow>;
    tasks(tenant: TenantPk, page: &PageAsk) -> Page<FoundRow>;
    runs_by_standing(ask: &StandingAsk) -> (Page<FoundRow>, u64);
}

passed_on! {
    LogStore {
        async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
            self.pass("observations").await?;
            let _clock = StoppedClock::begin();
            let read = self.inner.observations(pk, ask).await?;
            self.observations_read.fetch_add(read.len(), Ordering::SeqCst);
            Ok(read)
        }
    }
}

passed_on! {
    AuditStore {}
    audit(tenant: TenantPk, thread: &ThreadId) -> Vec<AuditRow>;
    audit_of_tenant(tenant: TenantPk, page: &PageAsk) -> Page<AuditRow>;
}

passed_on! {
    IdempotencyStore {
        async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
            self.pass("forget_idempotency").await?;
            let _clock = StoppedClock::begin();
            let forgotten = self.inner.forget_idempotency(before, limit).await?;
            self.forgotten.send_modify(|batches| batches.push(forgotten));
            Ok(forgotten)
        }
    }
    idempotency(tenant: TenantPk, scope: &str, key: &str) -> Option<IdempotencyRow>;
}

passed_on! {
    LookupStore {}
    lookups(tenant: TenantPk, key: &LookupKey, limit: u32) -> Vec<FoundRun>;
    listen_until(tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> bool;
    forget_lookups(before: Millis, limit: u32) -> u64;
}

passed_on! {
    DocumentStore {}
    write_document(new: Document, old: Expected, audit: AuditRow, kept: AnswerToStore) -> Option<i64>;
    document(tenant: TenantPk, kind: DocumentKind, id: &str) -> Option<Document>;
    documents_since(after: i64) -> Vec<Document>;
}

passed_on! {
    OutboxStore {}
    claim_deliveries(now: Millis, until: Millis, limit: u32) -> Vec<Delivery>;
    settle_delivery(id: &DeliveryId, attempt: u32, settled: Settled, said: &str, now: Millis) -> bool;
    next_delivery() -> Option<Millis>;
    deliveries(tenant: TenantPk, kind: TargetKind, target: &str, page: &PageAsk) -> Page<Delivery>;
    deliveries_of_tenant(tenant: TenantPk, kind: TargetKind, status: Option<DeliveryStatus>, page: &PageAsk) -> Page<Delivery>;
    replay_delivery(tenant: TenantPk, id: &DeliveryId, now: Millis, kept: AnswerToStore) -> Option<bool>;
    abandon_deliveries(tenant: TenantPk, kind: TargetKind, target: &str, why: &str, now: Millis) -> u64;
    forget_deliveries(before: Millis, limit: u32) -> u64;
}

passed_on! {
    KeyStore {}
    tenant(name: &str, now: Millis) -> TenantPk;
    tenant_name(tenant: TenantPk) -> Option<String>;
    rename_tenant(from: &str, to: &str, by: &str, now: Millis) -> bool;
    add_key(key: KeyRow, audit: AuditRow) -> bool;
    keys() -> Vec<KeyRow>;
    revoke_key(key_id: &str, now: Millis, audit: AuditRow) -> bool;
    rotate_key(rotation: Rotation, audit: AuditRow) -> bool;
    touch_key(key_id: &str, now: Millis, since: Millis) -> ();
    key_by_hash(hash: &str) -> Option<KeyRow>;
}

passed_on! {
    SessionStore {}
    add_session(session: SessionRow) -> ();
    session(hash: &str) -> Option<SessionRow>;
    end_session(hash: &str) -> ();
    forget_sessions(before: Millis, limit: u32) -> u64;
}

passed_on! {
    LeaseStore {
        fn leases_expire(&self) -> bool {
            self.leases.is_some() || self.inner.leases_expire()
        }

        async fn register(&self, new: Registration, ttl: Millis) -> Result<()> {
            self.pass("register").await?;
            let _clock = StoppedClock::begin();
            let replica = new.replica;
            self.inner.register(new, ttl).await?;
            if let Some(leases) = &self.leases {
                leases.send_replace(HashMap::from([(replica, expiry(ttl))]));
            }
            Ok(())
        }

        async fn renew(&self, replica: Uuid, ttl: Millis) -> Result<bool> {
            self.pass("renew").await?;
            let _clock = StoppedClock::begin();
            let Some(leases) = &self.leases else { return self.inner.renew(replica, ttl).await };
            Ok(leases.send_if_modified(|leases| match leases.get_mut(&replica) {
                Some(until) if *until > Instant::now() => {
                    *until = expiry(ttl);
                    true
                }
                Some(_) | None => false,
            }))
        }

        async fn end_expired(&self) -> Result<()> {
            self.pass("end_expired").await?;
            let _clock = StoppedClock::begin();
            let Some(leases) = &self.leases else { return self.inner.end_expired().await };
            let (now, mut expired) = (Instant::now(), Vec::new());
            leases.send_modify(|leases| expired = leases.extract_if(|_, until| *until <= now).collect());
            for (replica, _) in expired {
                self.inner.unregister(replica).await?;
            }
            Ok(())
        }
    }
    unregister(replica: Uuid) -> ();
    claimable(now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Vec<Claimable>;
    reserve(replica: Uuid, pks: &[ThreadPk]) -> Vec<ThreadPk>;
    deaths() -> i64;
    count_crash(pk: ThreadPk) -> ();
    forget_crashes(pks: &[ThreadPk], keeps_alone: bool) -> ();
    due(replica: Uuid, now: Millis, limit: u32) -> Vec<ThreadPk>;
    next_wake() -> Option<Millis>;
}

passed_on! {
    UsageStore {}
    usage(ask: &UsageAsk) -> Page<UsageSum>;
}

passed_on! {
    SealedStore {}
    sealed_rows(kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Vec<SealedRow>;
    replace_sealed(row: &SealedRow, body: &str) -> bool;
}

passed_on! {
    FigureStore {
        fn pools(&self) -> Vec<Pooled> {
            self.inner.pools()
        }
    }
    figures(now: Millis) -> Figures;
}

passed_on! {
    Store {
        fn describe(&self) -> String {
            self.inner.describe()
        }

        fn is_shared(&self) -> bool {
            self.inner.is_shared()
        }

        fn weakness(&self) -> Option<String> {
            self.inner.weakness()
        }

        fn for_readers(&self) -> Option<Arc<dyn Store>> {
            self.readers.clone().map(|readers| readers as Arc<dyn Store>)
        }

        async fn close(&self) {
            self.inner.close().await;
        }
    }
    ping() -> ();
}
