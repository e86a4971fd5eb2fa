//! What the door for other agents needs: a run as their task, and who is told of its changes.

pub mod pushes;
pub mod tasks;
