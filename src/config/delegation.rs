//! `[delegation]` and `[[agents]]`

use serde::{Deserialize, Serialize};

use super::Reference;
use super::section::by_path;

section! {
    /// Tasks that are delegated to other agents.
    Delegation {
        /// The first interval between queries of a task's state, in milliseconds; it doubles while nothing changes.
        poll_ms: i64 = 5_000, by_path();
        /// The maximum interval, in milliseconds.
        poll_most_ms: i64 = 300_000, by_path();
        /// The timeout of one call to an agent, in milliseconds.
        call_ms: u64 = 30_000, by_path();
        /// How many tasks are followed over event streams at the same time, for agents that support streams and no
        /// callbacks; other tasks are only polled.
        streams: usize = 256, by_path();
    }
}

/// Another agent, known by its card. The addresses that are named here are trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteAgent {
    /// The agent's id in calls of `delegate_to_agent`.
    pub id: String,
    /// The URL of its agent card.
    pub card: String,
    /// The reference to its bearer token: `env:NAME` or `file:PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Reference>,
    /// It processes a message only once, even if it is sent again: a message that may have been lost is sent again.
    #[serde(default)]
    pub dedupes: bool,
    /// The maximum duration of one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
}
