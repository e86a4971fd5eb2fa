//! The server as tools of any MCP host: every version through real sockets.

mod endpoint;
mod hanging_up;
pub mod host;
mod killed;
mod ours;
mod peers;
mod progress;
mod questions;
mod replicas;
mod tasks;
mod tools;
mod versions;
