//! What a handler needs to know of its request besides the caller: the credentials, the server's URL, the trace, and
//! the wanted form of the response.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::accept::wants_events;
use super::app_state::AppState;
use super::caller::pass;
use super::prefer;
use super::problem::Problem;
use super::rates::RateNotice;
use crate::auth::Pass;
use crate::domain::request_trace::RequestTrace;

#[derive(Clone)]
pub(crate) struct ReplyPreferences {
    /// The caller's credentials.
    pub(crate) pass: Pass,
    /// The URL prefix of this server, as the caller reaches it.
    pub(crate) base: String,
    pub(crate) trace: RequestTrace,
    /// Keeps the request's slot among its key's concurrent requests for as long as a clone exists.
    _rates: RateNotice,
    /// `Prefer: wait=N`.
    pub(crate) wait: Option<Duration>,
    /// `Accept` names `text/event-stream`, with no lower weight than JSON.
    pub(crate) wants_events: bool,
}

impl FromRequestParts<AppState> for ReplyPreferences {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let trace = parts.extensions.get::<RequestTrace>().cloned();
        Ok(Self {
            // On a server with keys, an unreadable key was refused before.
            pass: pass(app, parts).unwrap_or_else(|_| Pass::of(None)),
            base: app.base(parts),
            _rates: parts.extensions.get().cloned().unwrap_or_default(),
            trace: trace.unwrap_or_else(|| RequestTrace::of(&parts.headers)),
            wait: prefer::wait(&parts.headers),
            wants_events: wants_events(&parts.headers),
        })
    }
}
