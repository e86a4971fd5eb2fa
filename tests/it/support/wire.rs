//! A scripted server: it answers each request with a list of steps, so that a test can delay, stall, cut and corrupt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pes::egress::{SigningSecret, sign};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// The server's next step on a connection.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes exactly these bytes.
    Raw(Vec<u8>),
    /// Writes one chunk of a chunked body.
    Chunk(Vec<u8>),
    /// Waits for the test.
    Until(Arc<Notify>),
    /// Does nothing until the client disconnects, and then notifies the test.
    Stall(Arc<Notify>),
    /// Closes the connection.
    Cut,
}

/// A request as received.
#[derive(Debug)]
pub struct Request {
    pub line: String,
    pub headers: Vec<(String, String)>,
    /// `null`: the body is not JSON.
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether one of its signatures is by this secret.
    pub fn is_signed(&self, secret: &str) -> bool {
        let mut expected = http::HeaderMap::new();
        let (id, seconds) = (self.header("webhook-id").unwrap(), self.header("webhook-timestamp").unwrap());
        let (secret, body) = (SigningSecret::parse(secret).unwrap(), self.body.to_string());
        sign(&mut expected, &[secret], id, seconds.parse().unwrap(), body.as_bytes());
        let mut signatures = self.header("webhook-signature").unwrap().split(' ');
        signatures.any(|signature| signature == expected["webhook-signature"])
    }

    /// Whether its only signature is by this secret.
    pub fn is_signed_only_by(&self, secret: &str) -> bool {
        self.is_signed(secret) && !self.header("webhook-signature").unwrap().contains(' ')
    }
}

/// Answers the nth request with the nth list of steps, and closes the connection of any further request.
pub struct Wire {
    pub address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Wire {
    pub async fn serve(exchanges: Vec<Vec<Step>>) -> Self {
        Self::at("127.0.0.1:0", exchanges).await
    }

    /// The same at a given address.
    pub async fn at(address: &str, exchanges: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, exchanges) = (connections.clone(), Arc::new(exchanges));
        let next = Arc::new(AtomicUsize::new(0));
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(connection(socket, exchanges.clone(), next.clone(), sender.clone()));
            }
        });
        Self { address, requests, connections, accepting }
    }

    /// Releases its address for the next server.
    pub async fn close(self) {
        self.accepting.abort();
        // It was cancelled, so the error is expected.
        let _ = self.accepting.await;
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The next request received.
    pub async fn request(&mut self) -> Request {
        self.requests.recv().await.expect("the server runs as long as the test")
    }

    /// Number of requests that the test has not read yet.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Status and headers of a streamed answer.
pub fn event_stream() -> Step {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    Step::Raw(head.into())
}

/// A complete response without streaming.
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    vec![Step::Raw(head.into_bytes())]
}

/// One event.
pub fn event(data: impl std::fmt::Display) -> Step {
    Step::Chunk(format!("data: {data}\n\n").into_bytes())
}

/// A streamed reply of this text, as of OpenAI.
pub fn says(text: &str) -> Vec<Step> {
    let chunk = |delta: Value, reason: Value| event(json!({"choices": [{"delta": delta, "finish_reason": reason}]}));
    vec![event_stream(), chunk(json!({"content": text}), Value::Null), chunk(json!({}), json!("stop")), end()]
}

/// The end of a chunked body.
pub fn end() -> Step {
    Step::Raw(b"0\r\n\r\n".to_vec())
}

async fn connection(
    socket: TcpStream,
    exchanges: Arc<Vec<Vec<Step>>>,
    next: Arc<AtomicUsize>,
    requests: mpsc::UnboundedSender<Request>,
) {
    let mut socket = BufReader::new(socket);
    while let Some(request) = read(&mut socket).await {
        // The test may have ended already.
        let _ = requests.send(request);
        let Some(steps) = exchanges.get(next.fetch_add(1, Ordering::SeqCst)) else { return };
        for step in steps {
            if play(step, &mut socket).await.is_none() {
                return;
            }
        }
    }
}

/// `None`: the connection is closed.
async fn play(step: &Step, socket: &mut BufReader<TcpStream>) -> Option<()> {
    match step {
        Step::Raw(bytes) => socket.write_all(bytes).await.ok(),
        Step::Chunk(bytes) => {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            socket.write_all(&chunk).await.ok()
        }
        Step::Until(told) => {
            told.notified().await;
            Some(())
        }
        Step::Stall(gone) => {
            // A client that has sent its request sends nothing more, so any read means that it disconnects.
            let _ = socket.read(&mut [0; 1]).await;
            gone.notify_one();
            None
        }
        Step::Cut => None,
    }
}

async fn read(socket: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let split = |line: &String| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned()));
    let headers: Vec<(String, String)> = lines.iter().skip(1).filter_map(split).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Request { line: lines.swap_remove(0), headers, body: json })
}
