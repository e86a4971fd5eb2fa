//! How many runs a tenant may have at once, if that differs from the settings.

use serde::{Deserialize, Serialize};

/// The id of the only document with a tenant's limits.
pub const RUN_LIMITS_ID: &str = "runs";

/// How many runs a tenant may have; what is absent is as in the server's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantRunLimits {
    /// Runs under way, in each process of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub running_runs: Option<u32>,
    /// Threads whose next run waits for that; those beyond are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_runs: Option<u32>,
}

impl TenantRunLimits {
    /// The name of the first invalid limit, and what it must be.
    pub fn unsound(&self) -> Option<(&'static str, &'static str)> {
        (self.running_runs == Some(0)).then_some(("runningRuns", "must be 1 or more: no run would ever begin"))
    }
}
