//! `[outbox]` and `[[webhooks]]`

use serde::{Deserialize, Serialize};

use super::Reference;
use super::section::{by_path, file_only};
use crate::domain::webhook::WebhookEvent;

section! {
    /// How those are told who are outside: webhooks, and clients of A2A tasks.
    Outbox {
        /// Between one attempt and the next, in milliseconds, give or take a fifth; after the last one a delivery is dead.
        backoff_ms: Vec<i64> = vec![
            5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 36_000_000
        ], file_only();
        /// The same for pushes to A2A clients; the last pause is repeated.
        push_backoff_ms: Vec<i64> = vec![
            1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 900_000
        ], file_only();
        /// How long a push is tried, in milliseconds.
        push_for_ms: i64 = 86_400_000, by_path();
        /// One attempt, in milliseconds.
        attempt_timeout_ms: u64 = 15_000, by_path();
        /// How long a delivery that is over can be looked up and replayed, in milliseconds.
        kept_ms: i64 = 604_800_000, by_path();
    }
}

/// A webhook of the operator's: its address is called wherever it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name in the API.
    pub id: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// Where the signing secrets are: `env:NAME` or `file:PATH`. Each delivery is signed with all of them.
    #[serde(default)]
    pub secrets: Vec<Reference>,
    /// Told of this tenant's threads only; absent = of everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
