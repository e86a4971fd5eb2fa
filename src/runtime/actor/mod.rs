//! The actor of one thread: the task that alone decides for the thread in this process, one command after the other.
//!
//! It owns the thread in memory ([`LoadedThread`]), its effects under way, and their results until they are committed. The
//! way in is a [`Command`] in its mailbox. `actors.rs` starts an actor on demand, and the actor ends by itself when nothing
//! of the thread is ready or running.
//!
//! Everything it does follows one order: decide, commit, publish, then start and abort effects. So a reply to a command tells
//! only what is durable. No effect starts before its commit or without a valid lease. A result of an effect is kept, and
//! its commit retried, until it succeeds or another process owns the thread.
//!
//! Its fields and methods are named in this folder only. Of the process it uses what [`Shared`] has. The rest of the
//! runtime sees commands and their replies, and, while a step is committed, the [`LoadedThread`].

// What it receives, and its loop.
mod command;
mod mailbox;
mod results;
mod wake;

// The thread in memory: how it gets there, and what is settled first.
mod load;
mod loaded;
mod recovery;
mod reservation;

// One transition, in this order.
mod claim;
mod commit;
mod publish;
mod run_slot;
mod start_effects;
mod transition;

// What no machine decides.
mod changes;
mod erasure;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub(super) use command::Command;
pub(crate) use command::{
    AuditedAction, CommandError, CommitExtras, DecisionResult, EditedProfile, IdempotencyRowFn, NewReceiver,
    ProfileEdit,
};
pub(super) use loaded::LoadedThread;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::domain::ids::ThreadPk;
use crate::engine::CapRoom;
use crate::engine::event::Event;
use crate::runtime::actors::KnownVersion;
use crate::runtime::lease::Lease;
use crate::runtime::perform::RunningEffects;
use crate::runtime::shared::Shared;
use crate::runtime::tenant_runs::RunSlot;

pub(super) struct Actor {
    shared: Arc<Shared>,
    pk: ThreadPk,
    mailbox: mpsc::Receiver<Command>,
    /// The version that is compared with the store while the actor waits.
    known_version: KnownVersion,
    /// The last version that it had in memory.
    version: i64,
    /// The thread as it is stored; `None`: it must be read before the next decision.
    loaded: Option<LoadedThread>,
    /// The thread was reserved for this process before it was read for a request.
    is_reserved: bool,
    /// A commit was attempted. Until then nothing is stored of a new thread.
    has_written: bool,
    /// What the spending caps leave, if they had no room for the last decision: the next one fits what it reserves to this
    /// (`reserve` in the engine's `pes/state/funds.rs`).
    room_for_retry: Option<CapRoom>,
    /// The slot of its run among the tenant's runs under way.
    run_slot: Option<RunSlot>,
    /// The lease under which the effects below were started.
    lease: Option<Lease>,
    effects: RunningEffects,
    /// Results of effects that are not committed yet.
    uncommitted: VecDeque<Arc<Event>>,
    /// When to try the oldest of them again, and how long the pause was.
    retry: Option<(Instant, Duration)>,
}
