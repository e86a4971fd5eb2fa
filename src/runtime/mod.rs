//! The runtime: one task per active thread, and everything that callers may ask of it.
//!
//! Every method answers only after what it did is durable. Whoever asks names a [`Caller`](crate::domain::caller::Caller);
//! what belongs to another tenant does not exist for it.
//!
//! A request becomes a command for its thread's task ([`actor`]), which is started on demand and gone when nothing of
//! the thread is ready or running. Each command is one transition ([`transit`]): decide, commit, publish, perform. What
//! an effect comes to ([`perform`]) is an event for the same task. Timers and threads without an owner are found by one
//! sweeper ([`sweep`]), what other processes did by polling ([`replica_watch`]); the right to start anything is a lease ([`lease`]).

mod actor;
mod actors;
mod admission;
mod ask;
mod audit;
mod cancel;
pub mod clock;
mod command;
mod documents;
mod effects;
mod erasure;
mod feed;
mod figures;
mod folds;
mod fork;
mod history;
mod housekeeping;
mod http_tools;
mod idempotent;
mod inline;
mod lease;
mod listening;
mod loaded;
mod model_facts;
mod perform;
mod plan;
mod policy;
mod probation;
mod publish;
mod pushes;
mod readiness;
mod remote_agents;
mod replica_watch;
mod reports;
mod run_snapshots;
mod runs;
mod settings;
mod shared;
mod start;
mod submit;
mod sweep;
mod tally;
mod tasks;
mod threads;
mod tool_policy;
mod transit;
mod used;
mod views;
mod waiters;
mod wakeups;
mod webhooks;

use std::sync::Arc;

use crate::domain::fault::Fault;

pub use crate::provider::ModelInfo;
pub use ask::*;
pub use audit::AuditLine;
pub use feed::{EarlySubscription, Feed};
pub use policy::{DryRun, DryRunReport, TriedCall};
pub use start::{Parts, StartError};

type Result<T> = std::result::Result<T, Fault>;

/// A handle to the running process; clones share it.
#[derive(Clone)]
pub struct Runtime(Arc<shared::Shared>);
