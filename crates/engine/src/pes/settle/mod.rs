//! How what is open ends: an item, a call, a question to a person, a task of another agent, a model call.
//!
//! Ending one ends what hangs on it: an item ends its calls, a call its question and its task. Each ends once, and its end
//! is recorded. What follows for the run is decided by the caller.

pub(crate) mod call;
pub(crate) mod item;
pub(crate) mod model_call;
pub(crate) mod stop;
pub(crate) mod suspension;
pub(crate) mod task;
