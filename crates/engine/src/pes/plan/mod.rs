//! The plan: made by a planner, changed by planners, steps and people, reviewed before it runs.
//!
//! Every change identifies items by id, keeps what ran, and is recorded with the planVersion that it results in.

pub(crate) mod change;
pub(crate) mod edit;
pub(crate) mod forecast;
pub(crate) mod forget;
pub(crate) mod later_calls;
pub(crate) mod make;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod redo;
pub(crate) mod refine;
pub(crate) mod retry_or_skip;
pub(crate) mod review;
