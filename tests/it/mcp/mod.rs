//! MCP servers: their tools, the results of calls, and attacks that fail.

pub(crate) mod bed;
mod beginnings;
mod broken_streams;
mod calls;
mod credentials;
mod endpoint;
mod noisy;
mod peers;
mod questions;
mod rest;
mod robust;
mod runs;
mod sessions;
mod streams;
mod subscriptions;
mod trust;
