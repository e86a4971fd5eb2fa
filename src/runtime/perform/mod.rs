//! Performing effects: one task each ([`running`]). The result of an effect is an event ([`results`]); a panic is a failure
//! like any other.

mod call_questions;
mod model;
mod peer;
mod reply;
mod results;
mod running;
#[cfg(test)]
mod tests;
mod tool;

pub(super) use model::ModelAttempt;
pub(super) use peer::{PeerAttempt, PeerConnection, RemoteTaskRef};
pub(super) use results::{instead_of, is_progress, is_result, is_result_of, model_not_sent, tool_failed};
pub(super) use running::RunningEffects;
pub(super) use tool::ToolAttempt;
