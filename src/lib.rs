//! A durable server for agents that plan, execute and synthesize.
//!
//! [`Instance`] runs one inside another program, with tools ([`tool`]), models ([`provider`]), agent cores ([`engine`])
//! and a store ([`store`]) of its own. The other modules are the server's inside; the feature `internals` shows them to its tests and benches.

pub mod app;
pub mod cli;
pub mod config;
pub mod domain;
pub mod provider;
pub mod service;
pub mod store;
pub mod tool;

#[cfg(not(feature = "internals"))]
mod a2a;
#[cfg(feature = "internals")]
pub mod a2a;
#[cfg(not(feature = "internals"))]
mod auth;
#[cfg(feature = "internals")]
pub mod auth;
#[cfg(not(feature = "internals"))]
mod egress;
#[cfg(feature = "internals")]
pub mod egress;
#[cfg(not(feature = "internals"))]
mod failpoint;
#[cfg(feature = "internals")]
pub mod failpoint;
#[cfg(not(feature = "internals"))]
mod http;
#[cfg(feature = "internals")]
pub mod http;
#[cfg(not(feature = "internals"))]
mod live;
#[cfg(feature = "internals")]
pub mod live;
#[cfg(not(feature = "internals"))]
mod mcp;
#[cfg(feature = "internals")]
pub mod mcp;
#[cfg(not(feature = "internals"))]
mod outbox;
#[cfg(feature = "internals")]
pub mod outbox;
mod poll_gate;
#[cfg(not(feature = "internals"))]
mod runtime;
#[cfg(feature = "internals")]
pub mod runtime;
#[cfg(not(feature = "internals"))]
mod shutdown;
#[cfg(feature = "internals")]
pub mod shutdown;
#[cfg(not(feature = "internals"))]
mod telemetry;
#[cfg(feature = "internals")]
pub mod telemetry;
#[cfg(not(feature = "internals"))]
mod traces;
#[cfg(feature = "internals")]
pub mod traces;

pub use pes_engine as engine;

pub use app::App;
pub use app::instance::{AgentProps, Builder, Instance};
pub use config::Config;
pub use runtime::clock::Clock;
