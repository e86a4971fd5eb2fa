//! A durable server for agents that plan, execute and synthesize.
//!
//! [`Instance`] runs one inside another program, with tools ([`tool`]), models ([`provider`]), agent cores ([`engine`])
//! and a store ([`store`]) of its own. It is the same server without HTTP. The other modules are the server's inside; the feature
//! `internals` shows them to its tests and benches.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pes::{AgentProps, Config, Instance};
//!
//! let instance = Instance::build(Config::default()).open().await?;
//! let answer = instance.process(AgentProps::new("my-thread", "What is 6 times 7?")).await?;
//! println!("{}", answer.response.content);
//! instance.close().await;
//! # Ok(()) }
//! ```
//!
//! `Config::default()` reads no file and no variable, and has the demo model. With
//! [`Layers`](config::layers::Layers) a program is configured as the server is; a model of a provider needs
//! `config.models.openai.api_key = Some("sk-…".into())`, or the like.
//!
//! Everything else is a function of [`service`]: watching a run ([`feed`](service::feed)), questions
//! ([`suspensions`](service::suspensions)), cancelling ([`runs`](service::runs)), conversations
//! ([`threads`](service::threads)). `examples/` shows each: `watch.rs` follows a run and answers what it asks.
//!
//! An instance needs a tokio runtime with timers and IO. Several may live in one process, each with a data folder of its own. It
//! installs nothing for the whole process: metrics go to the recorder of the crate `metrics` that the program has set
//! before, the log to its subscriber of `tracing`.

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
mod app;
#[cfg(feature = "internals")]
pub mod app;
#[cfg(not(feature = "internals"))]
mod auth;
#[cfg(feature = "internals")]
pub mod auth;
mod cli;
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

#[cfg(feature = "internals")]
pub use app::App;
pub use app::Error;
pub use app::instance::{AgentProps, Builder, Instance};
pub use cli::run as run_command_line;
pub use config::Config;
pub use runtime::clock::Clock;
