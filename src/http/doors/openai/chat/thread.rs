//! Which thread a request is about. Its client sends the whole conversation each time; a thread that it names has the truth
//! about what was said there.

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::{ChatRequest, Said};
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::ids::new_thread_id;

const HEADER: &str = "x-pes-thread";
const MEMBER: &str = "pes_thread";

/// The thread that the request names.
pub(super) fn named(app: &AppState, headers: &HeaderMap, request: &ChatRequest) -> Result<Option<ThreadId>, Refusal> {
    let others = app.config.doors.thread_headers.iter().map(String::as_str);
    let by_header = std::iter::once(HEADER).chain(others).find_map(|name| meant(headers.get(name)?.to_str().ok()?));
    let member = |metadata: &Map<String, Value>| meant(metadata.get(MEMBER)?.as_str()?).map(str::to_owned);
    let by_member = || request.metadata.as_ref().and_then(member);
    let Some(id) = by_header.map(str::to_owned).or_else(by_member) else { return Ok(None) };
    Ok(Some(new_thread_id(&id, app.config.limits.id_length, "/metadata/pes_thread")?))
}

/// Front ends put in nothing, or a placeholder, where they have no id yet.
fn meant(id: &str) -> Option<&str> {
    let id = id.trim();
    let is_placeholder = id.contains("{{") || ["", "new", "null", "undefined"].contains(&id);
    (!is_placeholder).then_some(id)
}

/// What follows the agent's last words: all else was said before.
pub(super) fn news(said: &[Said]) -> &[Said] {
    let last = said.iter().rposition(|said| matches!(said, Said::Assistant { .. }));
    &said[last.map_or(0, |last| last + 1)..]
}

#[cfg(test)]
mod tests;
