//! The first state of a thread that is imported, decided like that of a fork. Nothing is committed here.

use super::Runtime;
use super::actor::CommandError;
use crate::engine::event::Event;
use crate::engine::step::{self, Step};
use crate::engine::{Loaded, Stamp};
use crate::store::NewThread;
use crate::tool::Toolset;

impl Runtime {
    /// Decides on an event as if for a new thread whose log ends with `last_seq` and whose tenant has these tools. Stores
    /// nothing.
    pub(crate) fn decide_for_new_thread(
        &self,
        new: &NewThread,
        last_seq: i64,
        event: Event,
        tools: &Toolset,
    ) -> Result<Step, CommandError> {
        let loaded = Loaded { last_seq, ..Loaded::empty(new.thread_id.clone()) };
        let mut machine = self.core(&new.core)?.load(loaded)?;
        let stamp = Stamp { now: self.now(), seed: self.0.clock.seed(), holder: None };
        Ok(step::decide(&mut *machine, &self.0.world(tools), stamp, event)?)
    }
}
