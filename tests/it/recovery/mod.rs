//! Recovery: kill -9 at every persistence boundary, a stop in the middle of work, tools that break.

mod backup;
mod calls;
mod carried_out;
mod clocks;
mod crashes;
mod created;
mod drain;
mod housekeeping;
mod kill;
mod leases;
mod listeners;
mod missing_log;
mod outbox;
mod previous;
pub mod probe;
mod replicas;
mod reserved;
mod review;
mod schedules;
mod sent_again;
mod spend;
mod story;
mod suspects;
mod tenant_runs;
mod tools;
mod went_back;
