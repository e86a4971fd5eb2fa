//! MCP servers: their tools are offered as `<server>__<tool>`.
//!
//! For every server:
//! - it is started in the background and restarted with exponential backoff when it ends; only calls that need it wait;
//! - a program runs in a process group of its own, its environment contains only what we choose, and none of its processes
//!   survives, even if they left the group or this process is killed;
//! - a tool's definition is pinned when it is first seen. If it changes, the tool is off until a person approves it;
//! - a call carries its idempotency key and its trace in `_meta`. A call whose connection broke is *lost*: it is repeated
//!   with the same key if its tool declares that this is safe, else a person decides;
//! - the server may ask a person during a call: the question is a suspension of kind `input`, and the call keeps running;
//! - the server can neither make model calls through us nor read our files.
//!
//! The operator's servers are in the configuration and may be programs or endpoints. Tenants can only add endpoints, which
//! are called through the guard of `egress`.

mod admin;
mod beginning;
mod call_errors;
mod call_permits;
mod catalog;
mod changes;
mod client;
mod credentials;
mod definition;
mod handler;
mod http;
mod incoming;
mod lines;
mod listing;
mod marked;
mod pins;
mod process;
mod proxy_tool;
mod questions;
mod reply;
mod server;
mod session;
mod tasks;
mod tenants;
#[cfg(test)]
mod test_messages;
mod view;

pub use catalog::{Catalog, Parts};
pub use server::Health;
pub use tenants::{Endpoint, name_taken};
pub use view::{DefinitionView, Origin, ServerView, ToolStanding, ToolView};
