//! The engine: pure decisions. No clock, no randomness, no IO, no tokio: it depends on no crate that offers them.
//!
//! A [`Core`] rebuilds a thread's [`Machine`] from what is stored. The machine takes an [`event::Event`] and returns a
//! [`step::Step`]: what to store, what happened, and the thread's status. Effects are not returned but derived: they
//! are the slots that are `Running` after the step and were not before ([`step::effect_changes`]). So the committed state
//! says what it waits for, and a crash loses nothing.
//!
//! The code that runs a machine does this for one event after the other: remember [`Machine::running`]; call
//! [`step::decide`]; commit the step, whole or not at all; stop and start effects as [`step::effect_changes`] says; feed
//! their results back as events. `crates/engine/tests/it/sim.rs` does so in memory, the server's `runtime` on a
//! database.
//!
//! [`cores::all`] are the cores that come with the server: [`pes`] with a plan and without. [`simple`] is the short way
//! to write a core, [`machine`] the long one. The feature `internals` shows parsers and prompts to the tests of this repository;
//! nothing is promised there.

#![warn(missing_docs)]
#![cfg_attr(feature = "internals", allow(missing_docs, reason = "it shows what only tests read"))]

pub mod cores;
pub mod domain;
pub mod effect;
pub mod event;
pub mod history;
pub mod machine;
#[cfg(not(feature = "internals"))]
mod parse;
#[cfg(feature = "internals")]
pub mod parse;
pub mod pes;
#[cfg(not(feature = "internals"))]
mod prompt;
#[cfg(feature = "internals")]
pub mod prompt;
pub mod simple;
pub mod step;
pub mod world;

pub use machine::{
    Core, HistoryQuery, Invocation, Loaded, Machine, PastCall, PeerCallInput, Prompt, PromptMaterial, PromptNeeds,
    SummaryExtent,
};
pub use parse::tags::TagFilter;
pub use prompt::{PartKind, PromptPart, parts as prompt_parts};
pub use world::{Allowance, CapRoom, ModelBook, Remaining, Reservation, RunAdmission, Stamp, Toolbox, World};
