//! A thread in memory, as its actor holds it. `load.rs` reads it from the store. Its methods stand beside what they are for:
//! commits of it in `transit.rs`, what listeners are sent of it in `publish.rs`, its push receivers in `pushes.rs`,
//! what a collector is told of it in `spans.rs`.

use super::pushes::Receivers;
use super::spans::Traced;
use crate::engine::Machine;
use crate::engine::history::fold::Fold;
use crate::store::{NewThread, ThreadRow};

pub(super) struct LoadedThread {
    pub(super) row: ThreadRow,
    pub(super) machine: Box<dyn Machine>,
    /// The thread does not exist yet: the first commit creates it.
    pub(super) new: Option<NewThread>,
    /// The full shapes as of what listeners were sent; only while somebody listens.
    pub(super) fold: Option<Fold>,
    pub(super) receivers: Receivers,
    pub(super) traced: Traced,
}
