//! The A2A protocol between agents, both as a server and as a client.
//!
//! [`types`] are the protocol's nouns, as version 1.0 names them. [`wire`] reads and writes them as JSON of 1.0 and of 0.3;
//! no other place knows that there are two. [`fault`] is the protocol's list of errors.
//!
//! Outbound: [`directory`] knows the agents that work can be given to, [`client`] speaks to them, [`seen`] is what their
//! tasks say, [`callback`] the secret under which they may report.
//!
//! Inbound: [`view`] shows a run as a task, [`task_events`] makes the task's events of what happens in it.

pub mod callback;
pub mod client;
pub mod directory;
pub mod fault;
pub mod seen;
pub mod task_events;
pub mod types;
pub mod view;
pub mod wire;

#[cfg(test)]
mod tests;
