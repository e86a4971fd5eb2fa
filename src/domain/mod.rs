//! Data only: the nouns that every floor shares. Serde in, serde out; no async, no IO, no clock.
//!
//! JSON names are those of the contract (camelCase); times are Unix milliseconds.

pub mod agent;
pub mod caller;
pub mod depth;
pub mod digest;
pub mod fault;
pub mod frame;
pub mod hitl;
pub mod http_tool;
pub mod ids;
pub mod message;
pub mod model;
pub mod observation;
pub mod payload;
pub mod plan;
pub(crate) mod pointer;
pub mod policy;
pub mod prompt;
pub mod run;
pub mod settings;
pub mod task;
pub mod thread;
pub mod tool;
pub(crate) mod typed;
pub mod usage;
pub mod webhook;

/// Unix time in milliseconds. Always an argument, never read from a clock below the runtime.
pub type Millis = i64;
