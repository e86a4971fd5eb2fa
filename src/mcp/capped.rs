//! A stream of lines none of which may be too long: one that is ends the stream, before it fills the memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

pub(super) struct Capped<R> {
    inner: R,
    most: usize,
    /// How much of the current line has been read.
    read: usize,
}

impl<R> Capped<R> {
    pub(super) fn new(inner: R, most: usize) -> Self {
        Self { inner, most, read: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Capped<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        let (mut longest, mut current) = (0, self.read);
        for part in fresh.split_inclusive(|byte| *byte == b'\n') {
            current += part.len();
            longest = longest.max(current);
            if part.ends_with(b"\n") {
                current = 0;
            }
        }
        self.read = current;
        if longest > self.most {
            let why = format!("a message of more than {} bytes", self.most);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Poll::Ready(Ok(()))
    }
}
