//! Through the front door: a real server on port 0, real sockets; one file per route.

mod agent_state;
mod approvals;
mod cancel;
mod client_tools;
mod drain;
mod errors;
mod events;
mod fork;
mod guard;
mod http_tools;
mod idempotency;
mod limits;
mod offers;
mod openapi;
mod plan;
mod policy;
mod process;
mod reads;
mod resume;
mod saturation;
mod tenants;
mod threads;
mod usage;
mod webhooks;
