//! One transition of one thread, as it is sent to the store, and its outcome.

use super::outbox::NewDelivery;
use super::{AuditRow, Fence, Fire, IdempotencyRow, LeaseChange, NewLookup, SpendChange};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::observation::Record;
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::step::{Row, RowKind};

/// A thread to be created by the commit that carries it: version 0 is inserted, then the commit applies.
#[derive(Clone, Debug, PartialEq)]
pub struct NewThread {
    pub tenant: TenantPk,
    pub thread_id: ThreadId,
    pub core: String,
    pub created_at: Millis,
    /// The name of the key.
    pub created_by: String,
}

/// One transition of one thread. The version moves by one with each.
#[derive(Clone, Debug)]
pub struct Commit {
    /// A new thread's key is made by the process that creates it: never used before, roughly rising.
    pub pk: ThreadPk,
    /// With [`Fence::NEW`] only.
    pub create: Option<NewThread>,
    pub fence: Fence,
    pub lease: LeaseChange,
    /// Globally unique: after a lost connection it identifies whether the commit was stored.
    pub token: uuid::Uuid,
    pub now: Millis,
    /// `None`: unchanged.
    pub head: Option<String>,
    pub profile: Option<Box<ThreadProfile>>,
    pub status: ThreadStatus,
    pub wake_at: Option<Millis>,
    /// Rows with `Keep::UntilFloor` and a smaller `ord` are no longer loaded.
    pub floor: i64,
    pub rows: Vec<Row>,
    /// The thread's `last_seq` as the caller knows it; compared with the fence, so no number is left out or used twice.
    /// Records are numbered from `last_seq + 1`, contiguously, in their order.
    pub last_seq: i64,
    pub records: Vec<Record>,
    pub idempotency: Option<IdempotencyRow>,
    /// The keys under which its run is found.
    pub lookups: Vec<NewLookup>,
    /// Audit lines of the thread written with it (who decided what).
    pub audit: Vec<AuditRow>,
    /// The deliveries that it adds to the outbox, due at once.
    pub deliveries: Vec<NewDelivery>,
    /// The due time of the schedule for which its run is.
    pub fire: Option<Fire>,
    /// What it spends and reserves under the caps; each row at most once.
    pub spend: Vec<SpendChange>,
}

impl Commit {
    /// Creates an idle thread, and nothing else.
    pub fn creating(pk: ThreadPk, new: NewThread, profile: ThreadProfile, idempotency: Option<IdempotencyRow>) -> Self {
        let unchanged = Self::unchanged(pk, Fence::NEW, new.created_at, ThreadStatus::Idle);
        Self { create: Some(new), profile: Some(Box::new(profile)), idempotency, ..unchanged }
    }

    /// A commit that changes nothing, for a thread that has no timer and no log yet.
    pub(crate) fn unchanged(pk: ThreadPk, fence: Fence, now: Millis, status: ThreadStatus) -> Self {
        Self {
            pk,
            create: None,
            fence,
            lease: LeaseChange::Keep,
            token: uuid::Uuid::new_v4(),
            now,
            head: None,
            profile: None,
            status,
            wake_at: None,
            floor: 0,
            rows: Vec::new(),
            last_seq: 0,
            records: Vec::new(),
            idempotency: None,
            lookups: Vec::new(),
            audit: Vec::new(),
            deliveries: Vec::new(),
            fire: None,
            spend: Vec::new(),
        }
    }

    /// Whether the commit counts as activity of the thread even if the status does not change.
    pub(crate) fn is_activity(&self) -> bool {
        self.profile.is_some() || self.rows.iter().any(|row| row.kind == RowKind::Message)
    }
}

/// The outcome of a commit. In every case but `Done` nothing of it is stored. If several apply, `Duplicate` is returned
/// before `Exists`, `Exists` before `NotDue`, and that before the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Done,
    /// The fence no longer matches: read the thread again.
    Stale,
    /// `create` found the id taken: read it.
    Exists,
    /// The idempotency key is taken: read it.
    Duplicate,
    /// The time of the schedule has had its run, or the schedule was changed: read it again.
    NotDue,
    /// It would exceed a cap on spending.
    Capped,
}
