//! A store between a runtime and the real one, whose calls can be made to hang or to fail.

mod passed_on;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use async_trait::async_trait;
use pes::config::Synchronous;
use pes::domain::Millis;
use pes::domain::ids::{DeliveryId, MessageId, PayloadId, RunId, TenantPk, ThreadId, ThreadPk};
use pes::domain::lookup::{FoundRun, LookupKey};
use pes::domain::message::ConversationMessage;
use pes::domain::observation::{Observation, Recorded};
use pes::domain::usage::{ModelUse, UsageSum};
use pes::engine::step::{Row, RowKind};
use pes::store::documents::{Document, DocumentChanges, DocumentKind, DocumentStore, Expected};
use pes::store::outbox::{
    Abandoned, Abandonment, Delivery, DeliveryStatus, OutboxReads, OutboxStore, Settlement, Share, TargetKind,
};
use pes::store::postgres::Postgres;
use pes::store::sealed::{SealedKind, SealedRow, SealedStore};
use pes::store::sqlite::Sqlite;
use pes::store::{
    AuditRow, AuditStore, BackupStore, CallPosition, ChainEnd, ChainReads, ChainStore, ChainedLine, Checkpoint, Chores,
    Claimable, Commit, Committed, Compaction, Dropped, EndedCost, Erasure, ErasureStore, Error, FigureStore, Figures,
    Forgotten, FoundRow, HeldCounts, IdempotencyRow, IdempotencyStore, KeyAdded, KeyRow, KeyStore, LeaseStore,
    LogCompression, LogStore, LookupPosition, LookupReads, LookupStore, NewImport, NewLinks, NewSpendNotice,
    ObservationAsk, Order, Outline, Page, PageAsk, PastPeriods, PlannedSchedule, Pooled, RecentThread, Registration,
    Renewal, ResponseToStore, RestoreHold, Result, RetentionReads, RetentionStore, Rotation, RowKey, RowStore,
    RunCosts, RunEnd, RunsByStatusAsk, ScheduleMove, ScheduleReads, ScheduleState, ScheduleStore, SessionRow,
    SessionStore, SpendChange, SpendKey, SpendStore, Spent, Store, SuspensionAsk, TenantRenamed, ThreadFilter,
    ThreadReads, ThreadRow, ThreadStore, ThreadVersion, Traffic, TransferStore, UnchainedLine, UsageAsk, UsageReads,
    UsageStore,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{OnceCell, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Duration, Instant};
use uuid::Uuid;

use super::postgres::Database;

thread_local! {
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// An empty SQLite store. Its folder is removed when the test's thread ends.
pub async fn fresh_store() -> Arc<dyn Store> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap_or_else(|error| panic!("{error}"));
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    Arc::new(store)
}

/// A database with the tables of the store, which are made once for all tests.
pub async fn migrated() -> Database {
    static TEMPLATE: OnceCell<Database> = OnceCell::const_new();
    let make = || async {
        let database = Database::fresh().await;
        store_on(&database).await.close().await;
        database
    };
    TEMPLATE.get_or_init(make).await.copied().await
}

/// The store of another process on this database.
pub async fn store_on(database: &Database) -> Arc<Postgres> {
    Arc::new(Postgres::open(&database.url().into(), 4).await.unwrap())
}

/// How often this text is in the files of the SQLite database in this folder.
pub fn occurrences(folder: &Path, text: &str) -> usize {
    let files = ["pes.db", "pes.db-wal", "pes.db-shm"].map(|name| std::fs::read(folder.join(name)).unwrap_or_default());
    files.iter().map(|file| String::from_utf8_lossy(file).matches(text).count()).sum()
}

/// The audit line of a delivery that a test makes due again.
pub fn replayed(tenant: TenantPk) -> AuditRow {
    let (actor, action, detail) = ("ann".to_owned(), "replay delivery".to_owned(), serde_json::json!({}));
    AuditRow { tenant, thread: ThreadPk::NONE, thread_id: None, at: 1, actor, action, detail }
}

/// The behaviour of calls from the moment it is set; the next call is call 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Well,
    /// Calls wait until the mood changes.
    Hangs,
    /// Call 1 waits for ever, 2 and 3 succeed.
    HangsOnce,
    /// Call 1 succeeds, 2 and 3 wait until the mood changes.
    HangsNext,
    /// Calls are carried out; their answers wait until the mood changes.
    HangsAfter,
    Fails,
    /// Call 1 panics, 2 and 3 succeed.
    PanicsOnce,
    /// Call 1 fails, 2 and 3 succeed.
    FailsOnce,
    /// Call 1 fails, 2 and 3 wait until the mood changes.
    FailsNext,
    /// The data of this many calls is refused; later calls succeed.
    Refuses(usize),
}

/// Moods by name of the call; `*` applies to all other calls.
type Moods = HashMap<&'static str, Mood>;

/// By name, the calls that have had to wait since the mood of their name was last set, each by a number of its own.
type Held = HashMap<&'static str, HashSet<usize>>;

pub struct Moody {
    inner: Arc<dyn Store>,
    /// The store for reads of people, if there is a separate one.
    readers: Option<Arc<Moody>>,
    moods: watch::Sender<Moods>,
    held: watch::Sender<Held>,
    next_number: AtomicUsize,
    observations_read: AtomicUsize,
    messages_read: AtomicUsize,
    /// Number of calls by name, since each was last read.
    calls: Mutex<HashMap<&'static str, usize>>,
    /// Number of answers that each housekeeping batch deleted.
    forgotten: watch::Sender<Vec<u64>>,
    /// When each registration expires by the test's clock; `None`: the real store decides.
    leases: Option<watch::Sender<HashMap<Uuid, Instant>>>,
}

/// While this exists, a paused clock does not advance. SQLite works on threads of its own; without this, tokio would
/// see no work and jump to the next timer.
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

    /// Wraps an empty store.
    pub async fn fresh() -> Arc<Self> {
        Self::over(fresh_store().await)
    }

    /// The same, with leases that expire by the test's clock.
    pub async fn with_leases() -> Arc<Self> {
        let leases = Some(watch::channel(HashMap::new()).0);
        Arc::new(Self { leases, ..Self::new(fresh_store().await, None) })
    }

    /// As `over`, with a second store for reads of people.
    pub fn apart(inner: Arc<dyn Store>) -> (Arc<Self>, Arc<Self>) {
        let readers = Self::over(inner.clone());
        (Arc::new(Self::new(inner, Some(readers.clone()))), readers)
    }

    fn new(inner: Arc<dyn Store>, readers: Option<Arc<Moody>>) -> Self {
        Self {
            inner,
            readers,
            moods: watch::channel(Moods::new()).0,
            held: watch::channel(Held::new()).0,
            next_number: AtomicUsize::new(0),
            observations_read: AtomicUsize::new(0),
            messages_read: AtomicUsize::new(0),
            calls: Mutex::default(),
            forgotten: watch::channel(Vec::new()).0,
            leases: None,
        }
    }

    /// Waits for this many housekeeping batches, and returns the number of answers that each deleted.
    pub async fn forgets(&self, batches: usize) -> Vec<u64> {
        let mut forgotten = self.forgotten.subscribe();
        forgotten.wait_for(|forgotten| forgotten.len() >= batches).await.expect("the store is there").clone()
    }

    /// Observations read since the last call of this function.
    pub fn observations_read(&self) -> usize {
        self.observations_read.swap(0, Ordering::SeqCst)
    }

    /// Messages of conversations read since the last call of this function.
    pub fn messages_read(&self) -> usize {
        self.messages_read.swap(0, Ordering::SeqCst)
    }

    /// Calls of this name since this function was last called for it.
    pub fn calls(&self, call: &str) -> usize {
        self.calls.lock().unwrap().remove(call).unwrap_or_default()
    }

    /// What has been held so far counts no more. A call that the new mood holds again counts again.
    pub fn set(&self, call: &'static str, mood: Mood) {
        self.held.send_modify(|held| held.retain(|name, _| call != "*" && *name != call));
        self.moods.send_modify(|moods| _ = moods.insert(call, mood));
    }

    /// Returns once a call of this name has had to wait since its mood was set.
    pub async fn holds(&self, call: &'static str) {
        self.holds_many(call, 1).await;
    }

    /// Returns once this many calls of this name have had to wait since its mood was set.
    pub async fn holds_many(&self, call: &'static str, count: usize) {
        let mut held = self.held.subscribe();
        let are_held = |held: &Held| held.get(call).is_some_and(|calls| calls.len() >= count);
        held.wait_for(are_held).await.expect("the store is there");
    }

    fn hold(&self, call: &'static str, number: usize) {
        self.held.send_modify(|held| _ = held.entry(call).or_default().insert(number));
    }

    /// Passes on an answer of the real store.
    async fn answered(&self, call: &'static str) {
        let mut moods = self.moods.subscribe();
        while mood_of(&moods.borrow_and_update(), call) == Mood::HangsAfter {
            self.hold(call, self.next_number.fetch_add(1, Ordering::SeqCst));
            moods.changed().await.expect("the store is there");
        }
    }

    async fn pass(&self, call: &'static str) -> Result<()> {
        *self.calls.lock().unwrap().entry(call).or_default() += 1;
        let number = self.next_number.fetch_add(1, Ordering::SeqCst);
        let mut moods = self.moods.subscribe();
        loop {
            let mood = mood_of(&moods.borrow_and_update(), call);
            match mood {
                Mood::Well | Mood::HangsAfter => return Ok(()),
                Mood::Fails => return Err(Error::Unavailable("it was told to fail".to_owned())),
                Mood::PanicsOnce => {
                    self.set(call, Mood::Well);
                    panic!("it was told to panic");
                }
                Mood::FailsOnce => {
                    self.set(call, Mood::Well);
                    return Err(Error::Unavailable("it was told to fail".to_owned()));
                }
                Mood::FailsNext => {
                    self.set(call, Mood::Hangs);
                    return Err(Error::Unavailable("it was told to fail".to_owned()));
                }
                Mood::Refuses(0) => return Ok(()),
                Mood::Refuses(left) => {
                    self.set(call, Mood::Refuses(left - 1));
                    return Err(Error::Refused("it was told to refuse it".to_owned()));
                }
                Mood::HangsOnce => {
                    self.set(call, Mood::Well);
                    self.hold(call, number);
                    std::future::pending().await
                }
                Mood::HangsNext => {
                    self.set(call, Mood::Hangs);
                    return Ok(());
                }
                Mood::Hangs => {
                    self.hold(call, number);
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
