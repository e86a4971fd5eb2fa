//! A TCP connection that outlives hyper's use of it, so that a refusal can be written, and an answer arrives whole although
//! the request was not read to its end.

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

/// How long and how much a client may go on sending after its answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

/// A peer that takes nothing for so long is gone.
const STALL: Duration = Duration::from_secs(30);

pub(super) struct Line {
    stream: TcpStream,
    /// Something arrived since anything was written.
    heard: AtomicBool,
    /// Requests whose headers have arrived.
    requests: AtomicUsize,
    /// The last of them is being answered, or the connection is no HTTP any more.
    is_answering: AtomicBool,
    /// The headers of another one took too long.
    is_late: AtomicBool,
    released: Notify,
}

/// For as long as a request is answered.
pub(super) struct Answering {
    line: Arc<Line>,
    /// No other one follows: the connection is no HTTP any more.
    pub(super) is_last: bool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.line.is_answering.store(self.is_last, Ordering::Relaxed);
    }
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            stream,
            heard: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            is_answering: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            released: Notify::new(),
        })
    }

    /// The headers of a request have arrived.
    pub(super) fn answers(self: &Arc<Self>) -> Answering {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.is_answering.store(true, Ordering::Relaxed);
        Answering { line: self.clone(), is_last: false }
    }

    /// Behind how many requests nothing goes on: the last of them is answered, and nothing of another has arrived. `None`:
    /// something does.
    pub(super) fn idle_behind(&self) -> Option<usize> {
        let requests = self.requests.load(Ordering::Relaxed);
        let is_idle = requests > 0 && !self.is_answering.load(Ordering::Relaxed) && !self.is_owed();
        is_idle.then_some(requests)
    }

    /// The headers of a request began to arrive, and did not come to their end in time.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// Returns when hyper, or the WebSocket that took over from it, has let go.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// A request, or a part of one, has arrived and is not answered.
    pub(super) fn is_owed(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// As much as the system takes at once: enough for a refusal, never waits.
    pub(super) fn write_now(&self, bytes: &[u8]) {
        let written = self.stream.try_write(bytes);
        tracing::trace!(?written, "refused a connection");
    }

    /// Ends our side and takes what the other one still sends: closing over unread bytes would destroy the answer on
    /// its way.
    pub(super) async fn linger(&self) {
        let ended = socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write);
        if ended.is_ok() {
            let _ = tokio::time::timeout(LINGER, self.discard()).await;
        }
    }

    async fn discard(&self) -> io::Result<()> {
        let mut taken = 0;
        while taken < LINGER_BYTES {
            self.stream.readable().await?;
            // Not across an `await`: every open connection would have room for it.
            let mut scrap = [0; 8192];
            match self.stream.try_read(&mut scrap) {
                Ok(0) => break,
                Ok(read) => taken += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The end that hyper holds.
pub(super) struct End {
    line: Arc<Line>,
    stalled: Option<Pin<Box<Sleep>>>,
    /// How long the headers of a request may take from their first byte on; those of the first request, from the beginning.
    head_time: Duration,
    /// When those began that arrive now, and behind how many requests.
    head: Option<(Instant, usize)>,
    late: Option<Pin<Box<Sleep>>>,
}

impl End {
    pub(super) fn new(line: Arc<Line>, head_time: Duration) -> Self {
        Self { line, stalled: None, head_time, head: Some((Instant::now(), 0)), late: None }
    }

    /// When the headers that arrive now began; `None`: none do.
    fn head(&mut self) -> Option<Instant> {
        let requests = self.line.requests.load(Ordering::Relaxed);
        let is_answering = self.line.is_answering.load(Ordering::Relaxed);
        self.head = self.head.filter(|(_, behind)| *behind == requests && !is_answering);
        if self.head.is_none() {
            self.late = None;
        }
        self.head.map(|(begun, _)| begun)
    }

    fn hears(&mut self) {
        self.line.heard.store(true, Ordering::Relaxed);
        if self.head().is_none() && !self.line.is_answering.load(Ordering::Relaxed) {
            self.head = Some((Instant::now(), self.line.requests.load(Ordering::Relaxed)));
        }
    }

    /// Nothing has arrived: an error where headers take too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(begun) = self.head() else { return Poll::Pending };
        let until = begun + self.head_time;
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(late.as_mut().poll(context));
        self.line.is_late.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.line.stream.try_write(bytes)?;
        self.line.heard.store(false, Ordering::Relaxed);
        Ok(written)
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.line.released.notify_one();
    }
}

impl AsyncRead for End {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Poll::Ready(ready) = self.line.stream.poll_read_ready(context) else {
                return self.poll_late(context);
            };
            ready?;
            match self.line.stream.try_read_buf(into) {
                Ok(read) => {
                    if read > 0 {
                        self.hears();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.line.stream.poll_write_ready(context) else {
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
        Poll::Ready(socket2::SockRef::from(&self.line.stream).shutdown(Shutdown::Write))
    }
}
