//! The address at the other end of a connection, as a request extension.

use std::net::{IpAddr, SocketAddr};

use axum::http::Extensions;

/// The address of the peer, which may be a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddr(pub(crate) SocketAddr);

impl RemoteAddr {
    /// The peer's address in the extensions of a request.
    pub(crate) fn ip(extensions: &Extensions) -> Option<IpAddr> {
        extensions.get::<Self>().map(|peer| peer.0.ip())
    }
}
