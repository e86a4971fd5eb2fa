//! The demo model: replies from a script, processed by the same parser, tools and store as those of a real model.
//!
//! The same call always gets the same reply: it depends on the call's phase, query, item, iteration and attempt, and
//! there is no state between calls. `docs/DEMO_SCRIPT.md` describes scripts; the built-in prompts are one, too
//! (`prompts.toml`).

mod call_description;
mod model;
mod reply;
mod script;
#[cfg(test)]
mod tests;

pub use model::Demo;
pub use script::Script;

/// Its `providerName` and `modelId`.
pub use crate::config::models::{DEMO_MODEL as MODEL, DEMO_PROVIDER as PROVIDER};
