//! The physical limit: a proxy that forwards a request over a persistent connection and returns the answer, and a broadcast
//! that writes the same bytes to many sockets. Both do the server's socket work, and nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

use crate::http::{Body, Framing, head};
use crate::process;

/// Size of one frame to one listener: a token frame of the server, with the head of a WebSocket message.
const FRAME: usize = 330;

/// Shared by all connections of this process.
struct Shared {
    to: SocketAddr,
    idle: Mutex<Vec<TcpStream>>,
    listeners: Mutex<Vec<OwnedWriteHalf>>,
}

/// Serves until the process ends.
pub async fn serve(to: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    process::announce(listener.local_addr()?);
    let shared = Arc::new(Shared { to, idle: Mutex::default(), listeners: Mutex::default() });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let shared = shared.clone();
        tokio::spawn(async move {
            // The connection was closed.
            let _ = carry(socket, &shared).await;
        });
    }
}

async fn carry(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut read = Vec::with_capacity(16 << 10);
    while let Some(end) = request(&mut client, &mut read).await? {
        if read.starts_with(b"GET /listen") {
            client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
            shared.listeners.lock().expect("nobody panics with it").push(client.into_split().1);
            return Ok(());
        }
        let mut model = shared.model().await?;
        model.write_all(&read[..end]).await?;
        let broadcasts = read.starts_with(b"POST /broadcast");
        read.drain(..end);
        if broadcasts {
            shared.broadcast(&mut model, &mut client).await?
        } else {
            answer(&mut model, &mut client).await?
        }
        shared.idle.lock().expect("nobody panics with it").push(model);
    }
    Ok(())
}

/// Where the next request ends; `None` at the end of the connection.
async fn request(client: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        if let Some(head) = head(read)
            && let Framing::Length(length) = head.framing
            && read.len() >= head.size + length
        {
            return Ok(Some(head.size + length));
        }
        if client.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Forwards the answer as it arrives.
async fn answer(model: &mut TcpStream, client: &mut TcpStream) -> io::Result<()> {
    let mut end = End::default();
    let mut read = Vec::with_capacity(16 << 10);
    while !end.is_reached {
        read.clear();
        if model.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        end.see(&read, &mut |_| {});
        client.write_all(&read).await?;
    }
    Ok(())
}

/// Finds the end of an answer in its bytes.
#[derive(Default)]
struct End {
    /// Bytes of an incomplete head.
    head: Vec<u8>,
    body: Option<Body>,
    is_reached: bool,
}

impl End {
    fn see(&mut self, bytes: &[u8], content: &mut impl FnMut(&[u8])) {
        if let Some(body) = &mut self.body {
            self.is_reached = body.feed(bytes, content).is_some();
            return;
        }
        self.head.extend_from_slice(bytes);
        if let Some(head) = head(&self.head) {
            let mut body = Body::new(head.framing);
            self.is_reached = body.feed(&self.head[head.size..], content).is_some();
            self.body = Some(body);
        }
    }
}

impl Shared {
    async fn model(&self) -> io::Result<TcpStream> {
        let idle = self.idle.lock().expect("nobody panics with it").pop();
        match idle {
            Some(model) => Ok(model),
            None => {
                let model = TcpStream::connect(self.to).await?;
                model.set_nodelay(true)?;
                Ok(model)
            }
        }
    }

    /// Writes a frame to each listener for each token, and the end. The requester gets its answer after the last write.
    async fn broadcast(&self, model: &mut TcpStream, client: &mut TcpStream) -> io::Result<()> {
        let mut listeners = std::mem::take(&mut *self.listeners.lock().expect("nobody panics with it"));
        let mut frame = vec![b' '; FRAME];
        // A final text frame with its length in the next two bytes.
        frame[..4].copy_from_slice(&[0x81, 126, ((FRAME - 4) >> 8) as u8, (FRAME - 4) as u8]);
        frame[4..21].copy_from_slice(br#"{"event":"token",  "#.get(..17).unwrap_or_default());
        let (mut end, mut read) = (End::default(), Vec::with_capacity(16 << 10));
        while !end.is_reached {
            read.clear();
            if model.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut tokens = 0;
            end.see(&read, &mut |said| tokens += memmem::find_iter(said, br#"{"content":"#).count());
            for _ in 0..tokens {
                for listener in &mut listeners {
                    listener.write_all(&frame).await?;
                }
            }
        }
        client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await
    }
}
