//! The front door: REST and live events, as `/openapi.json` promises them. It knows callers, limits and transports; what
//! a call means is the runtime's business.
//!
//! Every error leaves as a problem document with a code of `domain::fault::Code`. A handler's arguments say what it
//! needs: who may call, which ids, which parameters, which body.

mod a2a;
mod asked;
mod caller;
mod cors;
mod dress;
mod etag;
mod events;
mod follow;
mod front;
mod guard;
mod idempotency;
mod ids;
mod json;
mod links;
mod metrics;
mod openapi;
mod page;
mod params;
mod peer;
mod prefer;
mod problem;
mod router;
mod routes;
pub(crate) mod serve;
mod trace;

pub use front::Front;
pub use metrics::{COUNTED, Family, Kind, LOOKED_UP};
pub use openapi::PUBLIC;
pub use router::{openapi, router};
