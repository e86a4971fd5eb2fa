//! Webhooks: the events that can be sent to a URL, and their representation in the API.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Millis;

/// The events that a webhook can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum WebhookEvent {
    /// A run completed, or was cancelled.
    #[serde(rename = "run.finished")]
    RunFinished,
    #[serde(rename = "run.failed")]
    RunFailed,
    /// A person, or the caller's own program, is asked for something.
    #[serde(rename = "suspension.requested")]
    SuspensionRequested,
    /// It was answered, it expired, or its run was cancelled.
    #[serde(rename = "suspension.resolved")]
    SuspensionResolved,
    /// 80 % or all of a spending cap is used; sent once for each, per day or month.
    #[serde(rename = "spend.threshold")]
    SpendThreshold,
    /// Lines of the audit were chained: where the chain ends now.
    #[serde(rename = "audit.checkpoint")]
    AuditCheckpoint,
}

impl WebhookEvent {
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookEvent::RunFinished => "run.finished",
            WebhookEvent::RunFailed => "run.failed",
            WebhookEvent::SuspensionRequested => "suspension.requested",
            WebhookEvent::SuspensionResolved => "suspension.resolved",
            WebhookEvent::SpendThreshold => "spend.threshold",
            WebhookEvent::AuditCheckpoint => "audit.checkpoint",
        }
    }
}

/// A webhook as a client writes it.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSpec {
    /// Must be an address that this server calls for tenants (`egress`).
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// Every delivery is signed with each of them, so that one can be changed for another: `whsec_…`, or any text. Never
    /// shown again. Absent = one is made (when created), or they stay (when replaced).
    #[serde(default)]
    pub secrets: Option<Vec<String>>,
}

/// A webhook as clients see it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookResource {
    pub webhook_id: String,
    pub url: String,
    pub events: Vec<WebhookEvent>,
    pub secret_count: usize,
    /// Set up by the operator: it cannot be changed here.
    pub is_fixed: bool,
    /// The secret that was made, in the answer to its creation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Why nothing is sent to it: a secret cannot be opened. Deliveries continue when it can be opened again, or is
    /// replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_error: Option<String>,
    /// Why it is told nothing: what is stored of it cannot be read. Nothing else is known of it; replace or delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_error: Option<String>,
}

/// One message to one webhook, and what became of it.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryResource {
    /// `webhook-id` of every attempt.
    pub delivery_id: String,
    /// To whom.
    pub webhook_id: String,
    pub event: String,
    /// `pending`, `delivered` or `dead`.
    pub status: String,
    pub attempts: u32,
    pub created_at: Millis,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// What became of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// What is sent.
    #[schema(value_type = Object)]
    pub body: Value,
}
