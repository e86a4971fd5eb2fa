//! The use cases: what callers may request of this server, one module for each subject. Called by `http`, by the binary, and
//! by programs that embed the server.
//!
//! Every function takes the [`Service`] first. A function on something that belongs to a tenant takes the
//! [`Caller`](crate::domain::caller::Caller) next: what belongs to another tenant is reported as not found. A function
//! returns a [`Fault`], or what is durable. `http` has checked before that the caller's key permits the call.

#[cfg(not(feature = "internals"))]
pub(crate) mod a2a;
#[cfg(feature = "internals")]
pub mod a2a;
mod admission;
pub mod audit;
pub(crate) mod callbacks;
pub mod changes;
mod chore_metrics;
pub(crate) mod client_sealed;
pub mod delegated_tasks;
pub mod feed;
#[cfg(not(feature = "internals"))]
pub(crate) mod figures;
#[cfg(feature = "internals")]
pub mod figures;
pub mod fork;
mod handle;
pub mod housekeeping;
pub mod if_match;
mod later_calls;
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
pub mod tenants;
pub mod threads;
pub mod transfer;
pub mod usage;

use crate::domain::fault::Fault;

pub(crate) use handle::Parts;
pub use handle::Service;
pub(crate) use settings::{check_execution, check_system_prompt};

type Result<T, E = Fault> = std::result::Result<T, E>;
