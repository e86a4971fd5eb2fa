//! A small HTTP client that hides nothing: one request per connection, and the unprocessed response.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Far longer than anything in these tests takes: a wait that reaches it has found a defect.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes too long")
}

/// Does it while the clock of tokio stands still, however long it takes: a paused clock advances only when the runtime is
/// idle, which it never is meanwhile.
pub async fn in_no_time<F: Future>(what: F) -> F::Output {
    let began = std::time::Instant::now();
    let is_too_long = async {
        while began.elapsed() < PATIENCE {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::pause();
    let output = tokio::select! {
        biased;
        output = what => output,
        () = is_too_long => panic!("it takes too long"),
    };
    tokio::time::resume();
    output
}

/// Lets this time pass for the clock of tokio, without waiting for it.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Asks again and again until this holds: for what gives no notice of a change.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("it never holds: {what}"));
}

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Ask {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { address, method, path, headers: Vec::new(), body: None }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub fn json(self, body: &Value) -> Self {
        self.typed("application/json", &body.to_string())
    }

    pub fn typed(mut self, media_type: &str, body: &str) -> Self {
        self.body = Some(body.as_bytes().to_vec());
        self.header("content-type", media_type)
    }

    fn head(&self) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !has("host") {
            head += &format!("host: {}\r\n", self.address);
        }
        if let Some(body) = &self.body {
            head += &format!("content-length: {}\r\n", body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "connection: close\r\n\r\n";
        [head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }

    /// Sends the request, and reads the whole response.
    pub async fn send(self) -> Said {
        exchange(self.address, &self.head()).await
    }

    /// Sends the request, and reads a stream of events.
    pub async fn events(self) -> Events {
        let (mut wire, _hold) = dial(self.address, &self.head()).await;
        let said = soon(read_head(&mut wire)).await.expect("an answer");
        assert_eq!(said.status, 200, "{said:?}");
        assert_eq!(said.header("content-type"), Some("text/event-stream"));
        Events { wire, text: String::new(), _hold }
    }
}

/// Writes these bytes, and reads the response to its end.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Said {
    let (mut wire, _hold) = dial(address, request).await;
    if request.starts_with(b"HEAD") {
        return soon(read_head(&mut wire)).await.expect("an answer");
    }
    soon(read_answer(&mut wire)).await.expect("an answer")
}

type Wire = BufReader<OwnedReadHalf>;

/// The writing half is for keeping: dropped, it would close the connection.
async fn dial(address: SocketAddr, request: &[u8]) -> (Wire, OwnedWriteHalf) {
    let (reader, mut writer) = TcpStream::connect(address).await.expect("the server listens").into_split();
    // A server that has responded may stop reading; the request is still correct.
    let _ = soon(writer.write_all(request)).await;
    (BufReader::new(reader), writer)
}

/// The next response on this connection; `None` if the server closes it without one.
pub async fn read_answer(wire: &mut (impl AsyncBufRead + Unpin)) -> Option<Said> {
    let mut said = read_head(wire).await?;
    if said.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(wire).await.expect("the whole body") {
            said.body.extend(chunk);
        }
    } else if let Some(length) = said.header("content-length").map(|length| length.parse().unwrap()) {
        said.body = vec![0; length];
        wire.read_exact(&mut said.body).await.expect("the whole body");
    }
    Some(said)
}

async fn read_head(wire: &mut (impl AsyncBufRead + Unpin)) -> Option<Said> {
    let mut line = String::new();
    if wire.read_line(&mut line).await.expect("a status line") == 0 {
        return None;
    }
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut said = Said { status, headers: Vec::new(), body: Vec::new() };
    loop {
        let mut line = String::new();
        wire.read_line(&mut line).await.expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        said.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(said)
}

/// The connection ended before the body did.
#[derive(Debug)]
struct BrokenOff;

/// The next chunk; `None` at the end of the body.
async fn read_chunk(wire: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, BrokenOff> {
    let mut size = String::new();
    wire.read_line(&mut size).await.map_err(|_| BrokenOff)?;
    let size = usize::from_str_radix(size.trim(), 16).map_err(|_| BrokenOff)?;
    let mut chunk = vec![0; size + 2];
    wire.read_exact(&mut chunk).await.map_err(|_| BrokenOff)?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

/// A response.
#[derive(Clone, Debug)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    /// The body as JSON; checks the status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The problem with this code; checks that it is complete.
    #[track_caller]
    pub fn problem(&self, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem:#}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["status"], self.status);
        for member in ["type", "title", "detail", "instance", "traceId"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem:#}");
        }
        assert!(problem["retryable"].is_boolean());
        for member in problem.as_object().into_iter().flat_map(|members| members.keys()) {
            assert!(PROBLEM_MEMBERS.contains(member), "{member} is no member of the schema: {problem:#}");
        }
        if matches!(self.status, 429 | 503) {
            assert!(self.header("retry-after").is_some(), "{:?}", self.headers);
        }
        problem
    }
}

/// The members that OpenAPI describes.
static PROBLEM_MEMBERS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let document = pes::http::openapi();
    let members =
        document["components"]["schemas"]["Problem"]["properties"].as_object().expect("the schema of problems");
    members.keys().cloned().collect()
});

/// A stream of server-sent events.
pub struct Events {
    wire: Wire,
    text: String,
    /// Dropped, it would close the connection.
    _hold: OwnedWriteHalf,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub event: String,
    /// The id, where ids are numbers.
    pub id: Option<i64>,
    /// The id as received.
    pub mark: Option<String>,
    pub data: Value,
}

impl Events {
    /// The next event; `None` at the end of the stream, which the server must have ended.
    pub async fn next(&mut self) -> Option<Event> {
        soon(self.read()).await.expect("the stream is ended")
    }

    async fn read(&mut self) -> Result<Option<Event>, BrokenOff> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Ok(Some(event(&block)));
            }
            let Some(chunk) = read_chunk(&mut self.wire).await? else { return Ok(None) };
            self.text.push_str(std::str::from_utf8(&chunk).expect("events are UTF-8, each in one piece"));
        }
    }

    /// The comments after the last event, read at the end.
    pub fn unread(&self) -> &str {
        &self.text
    }

    /// All events until the connection broke off before the end of the stream, as it does when its server is killed.
    pub async fn broken_off(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Ok(event) = soon(self.read()).await {
            all.push(event.expect("the stream was ended"));
        }
        all
    }

    /// All events to the end.
    pub async fn all(mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn event(block: &str) -> Event {
    assert!(!block.contains('\r'), "LF only: {block:?}");
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let event = field("event").unwrap_or_default().to_owned();
    let data = field("data").unwrap_or_else(|| panic!("a block without data: {block:?}"));
    // Some wires end their streams with this.
    let data = if data == "[DONE]" { data.into() } else { serde_json::from_str(data).expect("data is JSON") };
    let mark = field("id").map(str::to_owned);
    Event { event, id: mark.as_ref().and_then(|id| id.parse().ok()), mark, data }
}
