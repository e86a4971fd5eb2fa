//! The same facts in both directions: what clients see of a state, and past states rebuilt from the log.

pub mod fold;
pub mod later_calls;
pub mod shapers;
mod shown;
pub mod unloaded_rows;
pub(crate) mod view;
mod went_back;

pub use shown::ShownPlan;
pub use went_back::WentBack;
