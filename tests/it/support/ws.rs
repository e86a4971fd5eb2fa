//! A WebSocket client.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::http::soon;

pub struct Socket {
    inner: WebSocketStream<TcpStream>,
    pub response: Response,
}

/// The server's response when it refuses the upgrade: status and problem.
pub type Refused = (u16, Value);

impl Socket {
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self, Refused> {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        Self::over(stream, address, path, headers).await
    }

    /// A client with a tiny receive buffer, so that unread frames block the server soon.
    pub async fn narrow(address: SocketAddr, path: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        let stream = socket.connect(address).await.expect("the server listens");
        Self::over(stream, address, path, &[]).await.expect("a socket")
    }

    async fn over(
        stream: TcpStream,
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Refused> {
        let mut request = format!("ws://{address}{path}").into_client_request().expect("a URL");
        for (name, value) in headers {
            let name: tungstenite::http::HeaderName = name.parse().expect("a header's name");
            request.headers_mut().insert(name, value.parse().expect("a header's value"));
        }
        match soon(client_async(request, stream)).await {
            Ok((inner, response)) => Ok(Self { inner, response }),
            Err(tungstenite::Error::Http(response)) => {
                let problem = response.body().as_deref().map(|body| serde_json::from_slice(body).unwrap_or_default());
                Err((response.status().as_u16(), problem.unwrap_or_default()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn say(&mut self, op: Value) {
        self.send(Message::text(op.to_string())).await;
    }

    /// Sends all of them in one write.
    pub async fn say_at_once(&mut self, ops: Vec<Value>) {
        for op in ops {
            soon(self.inner.feed(Message::text(op.to_string()))).await.expect("the socket is open");
        }
        soon(self.inner.flush()).await.expect("the socket is open");
    }

    /// Sends these bytes as they are, between two messages.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        soon(self.inner.get_mut().write_all(bytes)).await.expect("the socket is open");
    }

    pub async fn send(&mut self, message: Message) {
        soon(self.inner.send(message)).await.expect("the socket is open");
    }

    /// The next frame, or the close code of the socket.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        // One time-out for all reads: pings do not extend it.
        soon(self.hear()).await
    }

    /// The same without a time-out.
    pub async fn hear(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match self.inner.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("frames are JSON")),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Frames up to and including the first one that matches.
    pub async fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} after {frames:#?}"));
            let is_over = is_last(&frame);
            frames.push(frame);
            if is_over {
                return frames;
            }
        }
    }

    /// The response to the op with this id.
    pub async fn answer(&mut self, id: &str) -> Value {
        let names = ["ack", "nack", "pong"];
        let is_answer = |frame: &Value| frame["data"]["id"] == id && names.iter().any(|name| frame["event"] == *name);
        self.until(is_answer).await.pop().expect("the last one")
    }

    /// Close code and reason of the socket; frames before are skipped.
    pub async fn last_words(mut self) -> (u16, String) {
        loop {
            if let Message::Close(Some(frame)) = soon(self.inner.next()).await.expect("a word").expect("no error") {
                return (frame.code.into(), frame.reason.to_string());
            }
        }
    }

    /// Close code of the socket; frames before are skipped.
    pub async fn closed(mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }
}

/// Whether a frame is an observation of this type.
pub fn is(frame: &Value, kind: &str) -> bool {
    frame["event"] == "observation" && frame["data"]["type"] == kind
}

/// The seqs of the observations among frames.
pub fn seqs(frames: &[Value]) -> Vec<i64> {
    frames
        .iter()
        .filter(|frame| frame["event"] == "observation")
        .filter_map(|frame| frame["data"]["seq"].as_i64())
        .collect()
}
