//! Tasks of other agents: sent, asked about, given up, and what the agents report of them.

pub(crate) mod report;
pub(crate) mod send;
