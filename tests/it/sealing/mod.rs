//! Sealing keys form a ring, can be rotated, and nothing is sent without its secret.

mod kept;
mod moved;
mod rotation;

pub const OLD: &str = "the key that was used at first";
pub const NEW: &str = "the key that is used from now on";
