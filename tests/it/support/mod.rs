//! What tests share.

pub mod app;
#[cfg(feature = "failpoints")]
pub mod gate;
pub mod http;
pub mod postgres;
pub mod proxy;
pub mod store;
pub mod wire;
pub mod ws;
