//! The work on items: their permits, their loops, the steps of their models and the calls of their tools.

pub(crate) mod agent_state;
pub(crate) mod batch;
pub(crate) mod item_loop;
pub(crate) mod permits;
pub(crate) mod required_tools;
pub(crate) mod retry;
pub(crate) mod start;
pub(crate) mod step;
