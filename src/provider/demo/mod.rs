//! The demo model: replies from a script, through the same parser, tools and store as a real model's.
//!
//! The same call gets the same reply, always: what decides is the call's phase, query, item, iteration and attempt, and
//! nothing is remembered between calls. `docs/DEMO_SCRIPT.md` tells how a script is written; the prompts that every
//! server knows are one (`prompts.toml`).

mod call_description;
mod model;
mod reply;
mod script;
#[cfg(test)]
mod tests;

pub use model::Demo;
pub use script::Script;

/// What `providerName` and `modelId` call it.
pub const PROVIDER: &str = "demo";
pub const MODEL: &str = "demo-scripted";
