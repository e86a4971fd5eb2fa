//! One file per route; each handler says which scope it needs by its first argument.

pub(crate) mod agent_state;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod documentation;
pub(crate) mod fork;
pub(crate) mod health;
pub(crate) mod http_tools;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod mcp_servers;
pub(crate) mod messages;
pub(crate) mod offers;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod process;
pub(crate) mod resume;
pub(crate) mod runs;
pub(crate) mod state;
pub(crate) mod suspensions;
pub(crate) mod tasks;
pub(crate) mod threads;
pub(crate) mod tool_calls;
pub(crate) mod usage;
pub(crate) mod webhooks;
