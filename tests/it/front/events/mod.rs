//! `GET /threads/{thread}/events`, in its three forms, and `GET /events`.

mod changes;
mod hostile;
mod idle;
mod ops;
mod page;
mod socket;
mod sse;
