//! The delay that a provider asks for before a retry.

use serde_json::Value;

use crate::domain::Millis;
use crate::egress::MAX_RETRY_AFTER;
pub(crate) use crate::egress::retry_after as after;

/// `retryDelay: "34s"` in the details of a Google error, which may be wrapped in a list.
pub(crate) fn retry_delay_in_body(body: &Value) -> Option<Millis> {
    let body = body.get(0).unwrap_or(body);
    let details = body.get("error").unwrap_or(body)["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    let wait = seconds * 1000.0;
    wait.is_finite().then(|| (wait.ceil() as Millis).clamp(0, MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests;
