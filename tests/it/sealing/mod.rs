//! Sealing keys: they form a ring, one can be changed for another, and without its secret nothing is sent.

mod kept;
mod moved;
#[cfg(feature = "failpoints")]
mod rotation;

pub const OLD: &str = "the key that was used at first";
pub const NEW: &str = "the key that is used from now on";
