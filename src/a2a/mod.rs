//! Agents among agents: the A2A protocol, for both sides of a conversation.
//!
//! [`types`] are the protocol's nouns, as version 1.0 names them. [`wire`] reads and writes them as JSON of 1.0 and of 0.3;
//! no other place knows that there are two. [`fault`] is the protocol's list of errors.

pub mod fault;
pub mod types;
pub mod wire;
