//! The load: persistent connections, and closed loops of requests.

pub mod socket;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::http::{Body, head};

/// A persistent connection.
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub async fn open(to: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and passes on the answer's body as it arrives. Returns the status.
    pub async fn ask(&mut self, request: &[u8], mut content: impl FnMut(&[u8])) -> Outcome<u16> {
        self.stream.write_all(request).await?;
        let head = loop {
            if let Some(head) = head(&self.read) {
                break head;
            }
            self.more().await?;
        };
        self.read.drain(..head.size);
        let mut body = Body::new(head.framing);
        loop {
            match body.feed(&self.read, &mut content) {
                Some(taken) => {
                    self.read.drain(..taken);
                    return Ok(head.status);
                }
                None => self.read.clear(),
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Outcome<()> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err("the connection ended in the middle of an answer".into()),
            _ => Ok(()),
        }
    }

    /// The same with the whole body at once.
    pub async fn whole(&mut self, request: &[u8]) -> Outcome<(u16, Vec<u8>)> {
        let mut said = Vec::new();
        let status = self.ask(request, |part| said.extend_from_slice(part)).await?;
        Ok((status, said))
    }
}

/// A request with a JSON body, and `Prefer: wait=60` if it waits for the end of the run.
pub fn post(path: &str, body: &str, waits: bool) -> Vec<u8> {
    let prefer = if waits { "prefer: wait=60\r\n" } else { "" };
    let length = body.len();
    let head = "host: 127.0.0.1\r\ncontent-type: application/json\r\n";
    format!("POST {path} HTTP/1.1\r\n{head}{prefer}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The same request with this key.
pub fn with_key(request: &[u8], key: &str) -> Vec<u8> {
    let end_of_line = request.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (line, rest) = request.split_at(end_of_line);
    [line, format!("authorization: Bearer {key}\r\n").as_bytes(), rest].concat()
}

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes()
}

/// The results of a loop.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub count: u64,
    pub took: Duration,
    /// One per request, in milliseconds.
    pub latencies: Vec<f64>,
}

/// When a loop stops starting new work; started work is completed.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Time(Duration),
    Count(usize),
}

/// Each client works sequentially. `one` gets the number of iterations that all clients began before it.
pub async fn closed_loop<F>(to: SocketAddr, clients: usize, limit: Limit, one: F) -> Outcome<Done>
where
    F: AsyncFn(&mut Connection, usize) -> Outcome<()> + Clone + 'static,
{
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(to).await?);
    }
    let begun = Rc::new(Cell::new(0));
    let began = Instant::now();
    let mut loops = JoinSet::new();
    for mut connection in connections {
        let (one, begun) = (one.clone(), begun.clone());
        loops.spawn_local(async move {
            let mut latencies = Vec::new();
            while limit.admits(began, begun.get()) {
                let at = Instant::now();
                let nth = begun.replace(begun.get() + 1);
                one(&mut connection, nth).await.map_err(|error| error.to_string())?;
                latencies.push(at.elapsed().as_secs_f64() * 1_000.0);
            }
            Ok::<_, String>(latencies)
        });
    }
    let mut done = Done::default();
    while let Some(ended) = loops.join_next().await {
        done.latencies.extend(ended??);
    }
    done.count = done.latencies.len() as u64;
    done.took = began.elapsed();
    Ok(done)
}

impl Limit {
    fn admits(self, began: Instant, begun: usize) -> bool {
        match self {
            Self::Time(time) => began.elapsed() < time,
            Self::Count(count) => begun < count,
        }
    }
}
