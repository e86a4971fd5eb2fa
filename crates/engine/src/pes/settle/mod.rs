//! How open things end: an item, a call, a question to a person, a task of another agent, a model call.
//!
//! Ending one ends what depends on it: an item ends its calls, a call ends its question and its task. Each ends once,
//! and its end is recorded. The caller decides what follows for the run.

pub(crate) mod call;
pub(crate) mod item;
pub(crate) mod model_call;
pub(crate) mod stop;
pub(crate) mod suspension;
pub(crate) mod task;
