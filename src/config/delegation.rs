//! `[delegation]` and `[[agents]]`

use serde::{Deserialize, Serialize};

use super::Reference;
use super::section::by_path;

section! {
    /// Tasks that are given to other agents.
    Delegation {
        /// How soon an agent is asked how its task stands, in milliseconds; doubling as long as nothing changes.
        poll_ms: i64 = 5_000, by_path();
        /// The longest time between two such questions, in milliseconds.
        poll_most_ms: i64 = 300_000, by_path();
        /// How long one call to an agent may take, in milliseconds.
        call_ms: u64 = 30_000, by_path();
        /// How many tasks are listened to at once, of agents that tell of them over streams and cannot call back; others
        /// are only asked.
        streams: usize = 256, by_path();
    }
}

/// Another agent, known by its card. The operator vouches for the addresses that are named here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteAgent {
    /// As `delegate_to_agent` names it.
    pub id: String,
    /// Where its agent card is.
    pub card: String,
    /// Where the bearer token for it is: `env:NAME` or `file:PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Reference>,
    /// It takes a message once, however often it is sent: what may have been lost is sent again.
    #[serde(default)]
    pub dedupes: bool,
    /// How long it may take for one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
}
