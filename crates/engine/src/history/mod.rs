//! The same facts in both directions: what clients see of a state, and past states rebuilt from the log.

pub mod fold;
pub mod left;
pub mod shapers;
mod shown;
pub(crate) mod view;

pub use shown::ShownPlan;
