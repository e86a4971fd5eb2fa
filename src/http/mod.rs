//! HTTP: REST and live events, as `/openapi.json` describes them. This layer knows callers, limits and transports;
//! `service` knows what a call does.
//!
//! Every error is sent as a problem document with a code of `domain::fault::Code`; the doors send theirs in the formats
//! of their protocols. A handler's arguments say what it needs: the scope, the ids, the parameters, the body.

mod accept;
mod app_state;
mod caller;
mod challenge;
mod concurrent_requests;
mod console;
mod cors;
mod doors;
mod envelope;
mod etag;
mod events;
mod follow;
mod guard;
mod header_list;
mod held_body;
mod idempotency;
mod ids;
mod json;
mod json_lines;
mod links;
mod listeners;
mod metrics;
mod openapi;
mod page;
mod params;
mod prefer;
mod problem;
mod rates;
mod remote_addr;
mod reply_preferences;
mod request_span;
mod router;
mod routes;
mod scopes;
pub(crate) mod serve;
mod session_cookie;
mod trace;

pub use app_state::AppState;
pub(crate) use links::own_url;
pub(crate) use metrics::install as install_metrics;
#[cfg(feature = "internals")]
pub use metrics::{COUNTED, Family, Kind, LOOKED_UP};
#[cfg(feature = "internals")]
pub use openapi::PUBLIC;
pub(crate) use router::metrics as metrics_router;
pub use router::{openapi, router};
