//! The same facts in both directions: what clients see of a state, and past states rebuilt from the log.

pub mod fold;
pub mod shapers;
mod shown;
pub mod unloaded_rows;
pub(crate) mod view;

pub use shown::ShownPlan;
