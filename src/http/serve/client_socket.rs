//! A TCP connection that outlives hyper's use of it. So an error response can still be written, and a response arrives
//! completely even if the request was not read to its end.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

#[cfg(test)]
mod tests;

/// How long, and how many bytes, a client may go on sending after its response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 64 << 20;

/// A peer that accepts no data for this long is treated as disconnected.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct ClientSocket {
    stream: TcpStream,
    /// Bytes have arrived since the last write.
    has_unanswered_bytes: AtomicBool,
    /// The number of requests whose headers have arrived.
    requests: AtomicUsize,
    /// The last of them is being answered, or the connection was upgraded from HTTP.
    is_answering: AtomicBool,
    /// The headers of another request took too long.
    are_headers_late: AtomicBool,
    released: Notify,
}

/// Marks the request as being answered until it is dropped.
pub(super) struct AnswerGuard {
    socket: Arc<ClientSocket>,
    /// The connection was upgraded, so no other request follows.
    pub(super) is_last: bool,
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.socket.is_answering.store(self.is_last, Ordering::Relaxed);
    }
}

impl ClientSocket {
    pub(super) fn new(stream: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            stream,
            has_unanswered_bytes: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            is_answering: AtomicBool::new(false),
            are_headers_late: AtomicBool::new(false),
            released: Notify::new(),
        })
    }

    /// Called when the headers of a request have arrived.
    pub(super) fn begin_answer(self: &Arc<Self>) -> AnswerGuard {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.is_answering.store(true, Ordering::Relaxed);
        AnswerGuard { socket: self.clone(), is_last: false }
    }

    /// The number of answered requests, if the connection is idle after them and nothing of another request has
    /// arrived. `None` if the connection is busy.
    pub(super) fn idle_after(&self) -> Option<usize> {
        let requests = self.requests.load(Ordering::Relaxed);
        let is_idle = requests > 0 && !self.is_answering.load(Ordering::Relaxed) && !self.has_unanswered();
        is_idle.then_some(requests)
    }

    /// Whether the headers of a request began to arrive and were not complete in time.
    pub(super) fn are_headers_late(&self) -> bool {
        self.are_headers_late.load(Ordering::Relaxed)
    }

    /// Returns when hyper, or the WebSocket that took over from it, has released the connection.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// Whether a request, or a part of one, has arrived and is not answered.
    pub(super) fn has_unanswered(&self) -> bool {
        self.has_unanswered_bytes.load(Ordering::Relaxed)
    }

    /// Writes as much as the kernel accepts at once, which is enough for an error response. Never waits.
    pub(super) fn write_now(&self, bytes: &[u8]) {
        let written = self.stream.try_write(bytes);
        tracing::trace!(?written, "refused a connection");
    }

    /// Closes our side, and discards what the peer still sends. Closing with unread bytes would destroy the response on
    /// its way.
    pub(super) async fn linger(&self) {
        let ended = socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write);
        if ended.is_ok() {
            let _ = tokio::time::timeout(LINGER_TIMEOUT, self.discard()).await;
        }
    }

    async fn discard(&self) -> io::Result<()> {
        let mut taken = 0;
        while taken < MAX_LINGER_BYTES {
            self.stream.readable().await?;
            // Not kept across an `await`, or every open connection would hold this buffer.
            let mut buffer = [0; 8192];
            match self.stream.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => taken += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The side of the connection that hyper reads and writes.
pub(super) struct HyperIo {
    socket: Arc<ClientSocket>,
    stalled: Option<Pin<Box<Sleep>>>,
    /// How long the headers of a request may take from their first byte, or for the first request from the start of the
    /// connection.
    header_timeout: Duration,
    /// When the headers that are arriving began, and after how many requests.
    header_start: Option<(Instant, usize)>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl HyperIo {
    pub(super) fn new(socket: Arc<ClientSocket>, header_timeout: Duration) -> Self {
        Self { socket, stalled: None, header_timeout, header_start: Some((Instant::now(), 0)), deadline: None }
    }

    /// When the headers that are arriving began. `None` if none are.
    fn header_start(&mut self) -> Option<Instant> {
        let requests = self.socket.requests.load(Ordering::Relaxed);
        let is_answering = self.socket.is_answering.load(Ordering::Relaxed);
        self.header_start = self.header_start.filter(|(_, behind)| *behind == requests && !is_answering);
        if self.header_start.is_none() {
            self.deadline = None;
        }
        self.header_start.map(|(begun, _)| begun)
    }

    fn on_bytes(&mut self) {
        self.socket.has_unanswered_bytes.store(true, Ordering::Relaxed);
        if self.header_start().is_none() && !self.socket.is_answering.load(Ordering::Relaxed) {
            self.header_start = Some((Instant::now(), self.socket.requests.load(Ordering::Relaxed)));
        }
    }

    /// Called when no bytes are available. Fails if headers take too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(begun) = self.header_start() else { return Poll::Pending };
        let until = begun + self.header_timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(deadline.as_mut().poll(context));
        self.socket.are_headers_late.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.socket.stream.try_write(bytes)?;
        self.socket.has_unanswered_bytes.store(false, Ordering::Relaxed);
        Ok(written)
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_TIMEOUT)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for HyperIo {
    fn drop(&mut self) {
        self.socket.released.notify_one();
    }
}

impl AsyncRead for HyperIo {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Poll::Ready(ready) = self.socket.stream.poll_read_ready(context) else {
                return self.poll_late(context);
            };
            ready?;
            match self.socket.stream.try_read_buf(into) {
                Ok(read) => {
                    if read > 0 {
                        self.on_bytes();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for HyperIo {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.socket.stream.poll_write_ready(context) else {
                return self.poll_stalled(context);
            };
            ready?;
            match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.stalled = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&self.socket.stream).shutdown(Shutdown::Write))
    }
}
