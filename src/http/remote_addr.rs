//! The address at the other end of a connection, as a request extension.

use std::net::SocketAddr;

/// The address of the peer, which may be a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddr(pub(crate) SocketAddr);
