//! The use cases: what callers may ask of this server, one module for each thing that they ask about. Called by `http`,
//! by the binary, and by programs that embed the server.
//!
//! Every function takes the [`Service`] first. Where something belongs to a tenant it takes the
//! [`Caller`](crate::domain::caller::Caller) next: what belongs to another tenant does not exist for it. It answers with
//! a [`Fault`] or with what is durable. Whether a key permits the call is known before, by `http`.

pub mod a2a;
mod admission;
pub mod audit;
pub mod callbacks;
pub mod carried;
pub mod changes;
mod chore_metrics;
pub mod delegated_tasks;
pub mod feed;
pub mod figures;
pub mod fork;
mod handle;
pub mod housekeeping;
pub mod if_match;
pub mod limits;
pub mod lookups;
pub mod offers;
pub mod once;
mod pages;
pub mod plan;
pub mod policy;
pub mod readiness;
pub mod resources;
pub mod retention;
pub mod runs;
pub mod schedules;
mod settings;
mod spending;
pub mod suspensions;
pub mod threads;
pub mod transfer;
pub mod usage;

use crate::domain::fault::Fault;

pub use handle::{Parts, Service};

type Result<T> = std::result::Result<T, Fault>;
