//! Memory of an idle WebSocket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use tokio::task::spawn_blocking;

use super::{alone, assert_near, counted, held};
use crate::support::app::App;

/// A reader without heap memory.
pub(super) async fn open(address: SocketAddr, thread: &str) -> TcpStream {
    let ask = format!(
        "GET /threads/{thread}/events?after=latest HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let opened = spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(ask.as_bytes()).unwrap();
        hear(&mut stream, b"caught_up");
        stream
    });
    opened.await.unwrap()
}

/// Reads until these bytes arrive; returns how many bytes were read.
pub(super) fn hear(stream: &mut TcpStream, last: &[u8]) -> usize {
    let mut kept = [0; 64 << 10];
    let (mut end, mut heard) = (0, 0);
    loop {
        let read = stream.read(&mut kept[end..]).unwrap();
        assert!(read > 0, "closed after {heard} bytes");
        (end, heard) = (end + read, heard + read);
        if kept[..end].windows(last.len()).any(|seen| seen == last) {
            return heard;
        }
        // The end of the buffer may be the beginning of the bytes sought.
        let rest = end.min(last.len() - 1);
        kept.copy_within(end - rest..end, 0);
        end = rest;
    }
}

#[test]
fn memory_of_an_idle_socket() {
    alone("counts::sockets::memory_of_an_idle_socket", async || {
        const SOCKETS: usize = 200;
        let app = App::start().await;
        app.post("/threads", json!({ "threadId": "t" })).await.expect(201);
        let mut sockets = Vec::with_capacity(2 * SOCKETS);
        // Nothing that the server does from time to time is counted. The clock stands still while a socket is opened.
        tokio::time::pause();
        for _ in 0..SOCKETS {
            sockets.push(open(app.address, "t").await);
        }
        let region = counted();
        for _ in 0..SOCKETS {
            sockets.push(open(app.address, "t").await);
        }
        assert_near(held(&region) / SOCKETS, 10 << 10, "bytes of an idle socket");
    });
}
