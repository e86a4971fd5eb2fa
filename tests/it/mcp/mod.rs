//! MCP servers: what they offer, what becomes of a call, and what they cannot do to us.

mod bed;
mod calls;
mod endpoint;
mod peers;
mod rest;
mod robust;
mod runs;
mod trust;
