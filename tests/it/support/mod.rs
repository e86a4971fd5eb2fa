//! Shared by all tests.

pub mod app;
pub mod cases;
pub mod gate;
pub mod http;
pub mod issuer;
pub mod metrics;
pub mod postgres;
pub mod proxy;
pub mod store;
pub mod wire;
pub mod ws;
