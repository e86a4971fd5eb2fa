//! What tests share.

pub mod postgres;
pub mod wire;
