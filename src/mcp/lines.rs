//! The messages of a program, one on each line. A line that is too long ends the connection before it fills the memory.
//!
//! A program may need long before it answers for the first time (`uvx` downloads it first). Then this happens, which no
//! other message may be taken for:
//! 1. the library asks which protocol the program speaks: `discover`, whose id is `asked`;
//! 2. ten seconds later it begins the older handshake, `initialize`, without the answer: it has `gone_on`;
//! 3. the program answers `discover`. The library would take that for an error, so it is dropped here; a result, which says
//!    that the program needs no handshake, sets `said_yes`;
//! 4. the handshake fails, as such a program knows none, and the library lets go of the pipes, which are `Returned`;
//! 5. `client::agree` takes them back with `to_ask_again`, and asks `discover` once more, on the same pipes.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use super::tasks::TaskTools;

type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// The ends of the pipes, and what was read of a line.
pub(super) struct Pipes {
    input: Arc<tokio::sync::Mutex<Option<Input>>>,
    output: BufReader<Output>,
    line: Vec<u8>,
}

/// Where the pipes stand when the library has let go of them.
#[derive(Clone, Default)]
pub(super) struct Returned {
    pipes: Arc<Mutex<Option<Pipes>>>,
    /// The program said late that it speaks the protocol without a handshake.
    said_yes: Arc<Mutex<bool>>,
}

pub(super) struct Lines {
    /// `None`: returned.
    pipes: Option<Pipes>,
    most: usize,
    tasks: TaskTools,
    returned: Returned,
    /// What the library asks first, and whether it has gone on without the answer.
    asked: Option<RequestId>,
    gone_on: bool,
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

    /// Reads on until a whole line is there; `false`: there is none any more. What it has read stays when it is dropped.
    async fn read_line(&mut self, most: usize) -> io::Result<bool> {
        loop {
            let available = self.output.fill_buf().await?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if taken == 0 {
                return Ok(false);
            }
            if self.line.len() + taken > most {
                let why = format!("a message of more than {most} bytes");
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
    /// The pipes, if the program has said that it must be asked again.
    pub(super) fn to_ask_again(&self) -> Option<Pipes> {
        let said_yes = *self.said_yes.lock();
        said_yes.then(|| self.pipes.lock().take()).flatten()
    }
}

impl Lines {
    pub(super) fn new(pipes: Pipes, most: usize, tasks: TaskTools, returned: Returned) -> Self {
        Self { pipes: Some(pipes), most, tasks, returned, asked: None, gone_on: false }
    }

    /// Whether this answers the question that nobody waits for any more.
    fn is_late(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        if !self.gone_on || self.asked.is_none() {
            return false;
        }
        match message {
            JsonRpcMessage::Response(said) if Some(&said.id) == self.asked.as_ref() => {
                *self.returned.said_yes.lock() = true;
                true
            }
            JsonRpcMessage::Error(said) => said.id == self.asked,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        }
    }

    fn watch(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(asked) = message else { return };
        match asked.request {
            ClientRequest::DiscoverRequest(_) => self.asked = Some(asked.id.clone()),
            ClientRequest::InitializeRequest(_) => self.gone_on = true,
            _ => {}
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.watch(&message);
        let input = self.pipes.as_ref().map(|pipes| pipes.input.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let input = input.ok_or(io::ErrorKind::NotConnected)?;
            let mut input = input.lock().await;
            input.as_mut().ok_or(io::ErrorKind::NotConnected)?.write_all(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let pipes = self.pipes.as_mut()?;
            match pipes.read_line(self.most).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the output of an MCP server cannot be read");
                    return None;
                }
            }
            self.tasks.look_for(&pipes.line);
            let message = serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(&pipes.line);
            pipes.line.clear();
            match message {
                Ok(message) if self.is_late(&message) => {}
                Ok(message) => return Some(message),
                // Programs that print what is no message are not rare.
                Err(error) => tracing::debug!(%error, "a line of an MCP server is no message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(pipes) = &self.pipes {
            pipes.input.lock().await.take();
        }
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        *self.returned.pipes.lock() = self.pipes.take();
    }
}

#[cfg(test)]
mod tests;
