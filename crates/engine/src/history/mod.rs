//! The same facts both ways: what clients see of a state, and the past put together again from the log.

pub mod fold;
pub(crate) mod view;
