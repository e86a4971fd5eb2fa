//! `[outbox]` and `[[webhooks]]`

use serde::{Deserialize, Serialize};

use super::Reference;
use super::section::{by_path, file_only};
use crate::domain::webhook::WebhookEvent;

section! {
    /// Deliveries to receivers outside: webhooks, and clients of A2A tasks.
    Outbox {
        /// The delays between attempts, in milliseconds, with 20 % jitter; after the last attempt a delivery is dead.
        backoff_ms: Vec<i64> = vec![
            5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 36_000_000
        ], file_only();
        /// The same for pushes to A2A clients; the last delay is repeated.
        push_backoff_ms: Vec<i64> = vec![
            1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 900_000
        ], file_only();
        /// How long a push is attempted, in milliseconds.
        push_for_ms: i64 = 86_400_000, by_path();
        /// The timeout of one attempt, in milliseconds.
        attempt_timeout_ms: u64 = 15_000, by_path();
        /// How long a completed delivery can be looked up and replayed, in milliseconds.
        kept_ms: i64 = 604_800_000, by_path();
    }
}

/// A webhook of the operator. Its address is trusted, on any network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name in the API.
    pub id: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// References to the signing secrets: `env:NAME` or `file:PATH`. Each delivery is signed with all of them.
    #[serde(default)]
    pub secrets: Vec<Reference>,
    /// Only events of this tenant's threads are sent; absent = of all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}
