//! Who is at the other end of the connection.

use std::net::SocketAddr;

/// The address that connected: a proxy's, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);
