//! The address at the other end of a connection, as a request extension.

use std::net::SocketAddr;

/// The address that connected: a proxy's, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddr(pub(crate) SocketAddr);
