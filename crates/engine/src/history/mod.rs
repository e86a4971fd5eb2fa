//! The same facts both ways: what clients see of a state, and the past put together again from the log.

pub mod fold;
pub mod left;
pub mod shapers;
mod shown;
pub(crate) mod view;

pub use shown::ShownPlan;
