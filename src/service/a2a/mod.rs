//! The use cases of the A2A endpoints: a run as a task, and the push receivers of its changes.

pub mod pushes;
pub mod tasks;
