//! The A2A protocol between agents, as a server and as a client.
//!
//! [`types`] are the protocol's nouns, with the names of version 1.0. [`wire`] reads and writes them as JSON of 1.0 and
//! 0.3; all other code is independent of the version. [`fault`] is the protocol's list of errors.
//!
//! Outbound: [`directory`] has the agents that work can be delegated to, [`client`] calls them, [`report`] converts their
//! tasks for the engine, [`callback`] is the secret with which they may report.
//!
//! Inbound: [`view`] presents a run as a task, [`task_events`] converts what happens in it to the task's events.

pub mod callback;
pub mod client;
pub mod directory;
pub mod fault;
pub mod report;
pub mod task_events;
pub mod types;
pub mod view;
pub mod wire;

#[cfg(test)]
mod tests;
