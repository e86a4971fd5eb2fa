//! Sealing keys: they form a ring, one can be changed for another, and without its secret nothing is sent.

mod kept;
mod moved;
mod rotation;

use pes::egress::{SigningSecret, sign};

use crate::support::wire::Request;

pub const OLD: &str = "the key that was used at first";
pub const NEW: &str = "the key that is used from now on";

/// Whether its signature is the one that this secret makes.
pub fn is_signed(request: &Request, secret: &str) -> bool {
    let mut expected = http::HeaderMap::new();
    let (id, seconds) = (request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
    let (secret, body) = (SigningSecret::parse(secret).unwrap(), request.body.to_string());
    sign(&mut expected, &[secret], id, seconds.parse().unwrap(), body.as_bytes());
    request.header("webhook-signature") == expected["webhook-signature"].to_str().ok()
}
