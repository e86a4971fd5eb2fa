//! The messages of a program, one per line. A line that is too long ends the connection before it fills the memory, and
//! so does a program that does not read what is sent to it.
//!
//! A program may take long before its first answer (`uvx` downloads it first). Then the steps below happen, and no other
//! message may be mistaken for the late answer:
//! 1. the library asks which protocol the program speaks: a `discover` request with the id `discover_id`;
//! 2. after ten seconds without an answer it starts the older handshake with `initialize`: `has_fallen_back`;
//! 3. the program answers `discover`. The library would treat that as an error, so the answer is dropped here; a result,
//!    which means that the program needs no handshake, sets `answered_discover`;
//! 4. the handshake fails, because such a program knows none, and the library drops the transport, which puts the pipes
//!    into `Returned`;
//! 5. `beginning::negotiate` takes them with `take_to_retry`, and sends `discover` once more on the same pipes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::incoming::{Message, Reader};

type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// The two ends of the pipes, and the part of a line that was read so far.
pub(super) struct Pipes {
    input: Arc<tokio::sync::Mutex<Option<Input>>>,
    output: BufReader<Output>,
    line: Vec<u8>,
}

/// Receives the pipes when the library drops the transport.
#[derive(Clone, Default)]
pub(super) struct Returned {
    pipes: Arc<Mutex<Option<Pipes>>>,
    /// The program answered late that it needs no handshake.
    answered_discover: Arc<Mutex<bool>>,
}

#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Maximum size of a message that is received.
    pub(super) max_bytes: usize,
    /// How long a message waits for those before it, and how long it may take to be written then.
    pub(super) write_timeout: Duration,
}

pub(super) struct StdioTransport {
    /// `None`: the pipes were returned.
    pipes: Option<Pipes>,
    limits: Limits,
    /// Cancelled when a message was not written in time.
    unread: CancellationToken,
    reader: Reader,
    returned: Returned,
    /// The id of the library's first request.
    discover_id: Option<RequestId>,
    has_fallen_back: bool,
}

impl Pipes {
    pub(super) fn new(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let (input, output): (Input, Output) = (Box::new(input), Box::new(output));
        let input = Arc::new(tokio::sync::Mutex::new(Some(input)));
        Self { input, output: BufReader::new(output), line: Vec::new() }
    }

    /// Reads until a whole line is buffered; `false`: the output has ended. Cancel-safe: bytes that were read stay
    /// buffered.
    async fn read_line(&mut self, max_bytes: usize) -> io::Result<bool> {
        loop {
            let available = self.output.fill_buf().await?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if taken == 0 {
                return Ok(false);
            }
            if self.line.len() + taken > max_bytes {
                let why = format!("a message of more than {max_bytes} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            self.line.extend_from_slice(&available[..taken]);
            self.output.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl Returned {
    /// The pipes, if `discover` must be sent again.
    pub(super) fn take_to_retry(&self) -> Option<Pipes> {
        let answered_discover = *self.answered_discover.lock();
        answered_discover.then(|| self.pipes.lock().take()).flatten()
    }
}

impl StdioTransport {
    pub(super) fn new(pipes: Pipes, limits: Limits, reader: Reader, returned: Returned) -> Self {
        let (pipes, unread) = (Some(pipes), CancellationToken::new());
        Self { pipes, limits, unread, reader, returned, discover_id: None, has_fallen_back: false }
    }

    /// Whether this is the late answer to `discover`, which the library no longer expects.
    fn is_late_answer(&self, message: &Message) -> bool {
        if !self.has_fallen_back || self.discover_id.is_none() {
            return false;
        }
        match message {
            JsonRpcMessage::Response(said) if Some(&said.id) == self.discover_id.as_ref() => {
                *self.returned.answered_discover.lock() = true;
                true
            }
            JsonRpcMessage::Error(said) => said.id == self.discover_id,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        }
    }

    fn note_request(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(asked) = message else { return };
        match asked.request {
            ClientRequest::DiscoverRequest(_) => self.discover_id = Some(asked.id.clone()),
            ClientRequest::InitializeRequest(_) => self.has_fallen_back = true,
            _ => {}
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.note_request(&message);
        let input = self.pipes.as_ref().map(|pipes| pipes.input.clone());
        let (limit, unread) = (self.limits.write_timeout, self.unread.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let input = input.ok_or(io::ErrorKind::NotConnected)?;
            // A message that waited for so long is not sent: its call is over.
            let mut input = timeout(limit, input.lock()).await?;
            let pipe = input.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let written = timeout(limit, pipe.write_all(&line)).await;
            if written.is_err() {
                // A part of the message is written, so no other can follow.
                *input = None;
                unread.cancel();
            }
            written?
        }
    }

    async fn receive(&mut self) -> Option<Message> {
        loop {
            let pipes = self.pipes.as_mut()?;
            let read = tokio::select! {
                biased;
                () = self.unread.cancelled() => {
                    self.reader.break_off("it does not read what is sent to it".to_owned());
                    return None;
                }
                read = pipes.read_line(self.limits.max_bytes) => read,
            };
            match read {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.reader.break_off(format!("its output cannot be read: {error}"));
                    return None;
                }
            }
            let message = self.reader.read(&pipes.line);
            pipes.line.clear();
            match message {
                Ok(message) if self.is_late_answer(&message) => {}
                Ok(message) => return Some(message),
                Err(error) => self.reader.leave_out(&error),
            }
        }
    }

    /// A message that is being written keeps the input open. It is not waited for, because a program that reads nothing
    /// would never end then; its writer ends with the connection.
    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(pipes) = &self.pipes
            && let Ok(mut input) = pipes.input.try_lock()
        {
            input.take();
        }
        Ok(())
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        *self.returned.pipes.lock() = self.pipes.take();
    }
}

#[cfg(test)]
mod tests;
