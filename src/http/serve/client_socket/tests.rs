//! A peer that accepts no data.

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn a_peer_that_takes_nothing_for_thirty_seconds_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (_peer, mut end) = (peer.unwrap(), HyperIo::new(ClientSocket::new(accepted.unwrap().0), WRITE_STALL_TIMEOUT));
    tokio::time::pause();
    let began = Instant::now();
    let error = end.write_all(&vec![b'x'; 64 << 20]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), 30);
}
