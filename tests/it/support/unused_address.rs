//! An address of this machine at which nobody listens.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// While the socket is held, connections to its address are refused, and no other test is given it. Whoever names the address
/// can listen there all the same.
pub fn unused_address() -> (SocketAddr, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option of sockets");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = socket.local_addr().expect("it is bound").as_socket().expect("an IP address");
    (address, socket)
}
