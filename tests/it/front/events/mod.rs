//! `GET /threads/{thread}/events`, in its three shapes.

mod hostile;
mod idle;
mod ops;
mod page;
mod socket;
mod sse;
