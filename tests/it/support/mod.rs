//! What tests share.

pub mod app;
pub mod http;
pub mod postgres;
pub mod proxy;
pub mod wire;
pub mod ws;
