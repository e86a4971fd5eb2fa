//! The runtime: one task per active thread, which alone decides for the thread in this process. It checks no
//! permissions: `http` checks the scopes, `service` the tenant.
//!
//! A request becomes a command for its thread's task ([`actor`]), which is started on demand and ends when nothing of
//! the thread is ready or running. Each command is one transition ([`transition`]): decide, commit, publish, perform. The
//! result of an effect ([`perform`]) is an event for the same task. One sweeper ([`sweep`]) finds due timers and threads
//! without an owner, polling ([`replica_watch`]) finds the commits of other processes. Effects start only under a lease
//! ([`lease`]).
//!
//! A method of [`Runtime`] that sends a command returns only after its work is durable. No other folder names the
//! engine's `Machine`.

mod actor;
mod actors;
mod admission;
pub(crate) mod audit;
mod changes;
mod claim;
pub mod clock;
mod command;
mod commit;
mod crash_watch;
mod erasure;
mod handle;
pub(crate) mod inline;
mod lease;
mod listening;
mod load;
mod loaded;
mod long_queries;
mod model_meters;
mod models;
mod new_thread;
mod outgoing;
mod own_address;
mod past_prompt;
mod perform;
mod prepared_spans;
mod probation;
mod prompt_material;
mod publish;
mod pushes;
mod recovery;
mod replica_watch;
mod restored;
pub(crate) mod rows;
mod shared;
mod snapshot;
mod spans;
mod spending;
mod start;
mod start_effects;
mod stop;
mod sweep;
mod tally;
mod tenant_runs;
mod transition;
mod waiters;
mod wakeups;
mod went_back;

use std::sync::Arc;

pub(crate) use command::{
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
