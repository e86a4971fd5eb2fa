//! A durable server for agents that plan, execute and synthesize.

pub mod a2a;
pub mod auth;
pub mod config;
pub mod domain;
pub mod egress;

pub mod http;
pub mod live;
pub mod mcp;
pub mod outbox;
pub mod provider;
pub mod runtime;
pub mod service;
pub mod store;
pub mod tool;
pub mod usage;

pub mod app;
pub mod cli;
pub mod failpoint;
pub mod shutdown;
pub mod telemetry;

pub use pes_engine as engine;

pub use app::App;
pub use app::instance::{AgentProps, Builder, Instance};
pub use config::Config;
