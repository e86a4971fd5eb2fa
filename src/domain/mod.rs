//! The nouns of the server: those of the engine, and those that decisions never see. Data only: no async, no IO, no clock.

pub mod answer_text;
pub mod caller;
pub mod console_urls;
pub mod expected_cost;
pub mod frame;
pub mod http_tool;
pub mod lookup;
pub(crate) mod prices;
pub(crate) mod question_text;
pub(crate) mod repeated_failure;
pub mod request_trace;
pub mod retention;
pub(crate) mod run_activity;
pub mod run_limits;
pub mod schedule;
pub mod spend;
pub mod tenant;
pub(crate) mod typed;
pub(crate) mod visible;
pub mod webhook;
pub mod which_thread;

pub use pes_engine::domain::*;
