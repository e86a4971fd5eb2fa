//! The runtime: one task per active thread, which alone decides for the thread in this process. It checks no
//! permissions: `http` checks the scopes, `service` the tenant.
//!
//! A request becomes a command for its thread's task ([`actor`]), which is started on demand and ends when nothing of
//! the thread is ready or running. Each command is one transition (`actor/transition.rs`): decide, commit, publish, perform. The
//! result of an effect ([`perform`]) is an event for the same task. One sweeper ([`sweep`]) finds due timers and threads
//! without an owner, polling ([`replica_watch`]) finds the commits of other processes. Effects start only under a lease
//! ([`lease`]).
//!
//! A method of [`Runtime`] that sends a command returns only after its work is durable. No other folder names the
//! engine's `Machine`.

// The way in: the handle, and what it answers without an actor.
mod admission;
mod handle;
mod new_thread;
mod past_prompt;
mod snapshot;
mod waiters;

// The actor of a thread, and all of them.
mod actor;
mod actors;

// What a step adds to its commit, and what is counted of it.
pub(crate) mod audit;
mod outgoing;
mod spending;
mod tally;

// Effects, and what they need.
pub(crate) mod inline;
mod listening;
mod model_meters;
mod models;
mod own_address;
mod perform;
mod prompt_material;
pub(crate) mod rows;

// The whole process: what its parts share, its start and stop, its lease, its clock, and bounds over all threads.
pub mod clock;
mod lease;
mod long_queries;
mod restored;
mod shared;
mod start;
mod stop;
mod tenant_runs;

// What looks after threads that get no command: timers, lost owners, crashes, commits of other processes.
mod crash_watch;
mod replica_watch;
mod sweep;
mod went_back;

use std::sync::Arc;

pub(crate) use actor::{
    AuditedAction, CommandError, CommitExtras, DecisionResult, EditedProfile, IdempotencyRowFn, NewReceiver,
    ProfileEdit,
};
pub(crate) use shared::find_core;
pub(crate) use snapshot::ThreadSnapshot;
pub use start::{Parts, StartError};
pub(crate) use stop::stopping;
pub(crate) use tenant_runs::RunLimits;

/// A handle to the running process; clones share it.
#[derive(Clone)]
pub struct Runtime(Arc<shared::Shared>);
