//! MCP servers: their tools are offered as `<server>__<tool>`.
//!
//! What holds of every server:
//! - it is started in the background, and again when it ends, with longer and longer pauses; nobody waits for it but the
//!   calls that need it;
//! - a program runs in a process group of its own, with an environment that holds nothing of ours, and leaves nothing
//!   behind, even if it left the group or this process is killed;
//! - a tool's definition is pinned when it is first seen. If it changes, the tool is off until a person approves;
//! - a call carries its idempotency key and its trace in `_meta`. One whose connection broke is *lost*: repeated under the
//!   same key if its tool declared that this is safe, else a person decides;
//! - it may ask a person in the middle of a call: that is a suspension of kind `input`, and the call runs on;
//! - it gets no model call and no file out of us.
//!
//! The operator's servers stand in the configuration and may be programs or endpoints; tenants add endpoints only, and
//! those are called through the guard of `egress`.

mod admin;
mod catalog;
mod client;
mod definition;
mod handler;
mod http;
mod lines;
mod listing;
mod marked;
mod news;
mod pins;
mod process;
mod proxy_tool;
mod questions;
mod reply;
mod server;
mod tasks;
mod tenants;
#[cfg(test)]
mod test_messages;
mod view;

pub use catalog::{Catalog, Parts};
#[cfg(feature = "internals")]
pub use server::Health;
pub use tenants::{Endpoint, exists};
pub use view::ServerView;
#[cfg(feature = "internals")]
pub use view::{DefinitionView, Origin, ToolStanding, ToolView};
