//! The engine: pure decisions. No clock, no random, no IO, no tokio: its list of dependencies has none to offer.
//!
//! A [`Core`] loads a thread's [`Machine`] from what is stored. The machine is asked with an [`event::Event`] and answers
//! with a [`step::Step`]: what to store, what happened, and where the thread stands. Effects are not returned but derived:
//! whatever slot is `Running` after the step and was not before ([`step::started`]). So the committed state says what it
//! waits for, and a crash forgets nothing.
//!
//! Whoever runs a machine does this, for one event after the other: remember [`Machine::running`]; [`step::decide`];
//! commit the step, whole or not at all; start what [`step::started`] names and stop what [`step::stopped`] does; give
//! what an effect brings back as an event. `crates/engine/tests/it/sim.rs` does so in memory, the server's `runtime` on a
//! database.
//!
//! [`cores::all`] are the cores that come with the server: [`pes`] with a plan and without. [`simple`] is the short way to
//! a core of one's own, [`machine`] the long one.

pub mod cores;
pub mod domain;
pub mod effect;
pub mod event;
pub mod history;
pub mod machine;
pub mod parse;
pub mod pes;
pub mod prompt;
pub mod simple;
pub mod step;
pub mod world;

pub use machine::{
    Core, Extent, Invocation, Loaded, Machine, Material, Needs, PastCall, PeerCallInput, Prompt, Recent,
};
pub use world::{Allowance, Begin, Illegal, Left, ModelBook, Reservation, Room, Stamp, Toolbox, World};
