//! MCP servers: what they offer, what becomes of a call, and what they cannot do to us.

pub(crate) mod bed;
mod calls;
mod endpoint;
mod noisy;
mod peers;
mod questions;
mod rest;
mod robust;
mod runs;
mod sessions;
mod streams;
mod trust;
