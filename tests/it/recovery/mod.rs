//! Recovery: kill -9 at every persistence boundary, a stop in the middle of work, tools that break.

#[cfg(feature = "failpoints")]
mod backup;
#[cfg(feature = "failpoints")]
mod calls;
#[cfg(feature = "failpoints")]
mod created;
#[cfg(feature = "failpoints")]
mod drain;
#[cfg(feature = "failpoints")]
mod kill;
#[cfg(feature = "failpoints")]
mod outbox;
#[cfg(feature = "failpoints")]
mod previous;
#[cfg(feature = "failpoints")]
pub mod process;
#[cfg(feature = "failpoints")]
mod review;
#[cfg(feature = "failpoints")]
mod spend;
#[cfg(feature = "failpoints")]
mod story;
#[cfg(feature = "failpoints")]
mod tenant_runs;

mod carried_out;
mod crashes;
mod housekeeping;
mod leases;
mod listeners;
pub mod probe;
mod replicas;
mod reserved;
mod schedules;
mod sent_again;
mod tools;
mod winner;
