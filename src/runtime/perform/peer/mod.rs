//! Calls to other agents about tasks that were delegated to them: one attempt ([`attempt`]), its message, and why it failed.

mod attempt;
mod connection;
mod failure;
mod message;

pub(in crate::runtime) use attempt::PeerAttempt;
pub(in crate::runtime) use connection::{PeerConnection, RemoteTaskRef};
