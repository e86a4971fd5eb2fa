//! A collector that accepts every export and separates spans of runs from spans of requests, which are exported at any
//! time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::http::soon;
use super::otlp::{Span, read};

/// The number of the kind in opentelemetry-proto.
const SERVER: u64 = 2;

pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Received {
    pub fn spans(&self) -> Vec<Span> {
        read(&self.bytes).1
    }
}

pub struct Collector {
    pub address: SocketAddr,
    runs: UnboundedReceiver<Received>,
    requests: UnboundedReceiver<Received>,
}

#[derive(Clone)]
struct Behind {
    /// Status codes for the first exports of runs; later exports succeed. With 0 an export gets no response.
    answers: Arc<Mutex<VecDeque<u16>>>,
    /// The body of a response of success to an export of runs.
    taken: &'static [u8],
    runs: UnboundedSender<Received>,
    requests: UnboundedSender<Received>,
}

impl Collector {
    pub async fn start(answers: &[u16]) -> Self {
        Self::responding(answers, b"").await
    }

    /// A collector whose responses of success to exports of runs have this body.
    pub async fn responding(answers: &[u16], taken: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (runs, told_runs) = unbounded_channel();
        let (requests, told_requests) = unbounded_channel();
        let answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
        let behind = Behind { answers, taken, runs, requests };
        let routes = Router::new().fallback(take).with_state(behind);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, runs: told_runs, requests: told_requests }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next export of runs.
    pub async fn told(&mut self) -> Received {
        soon(self.runs.recv()).await.expect("the collector lives as long as the test")
    }

    pub async fn spans(&mut self) -> Vec<Span> {
        self.told().await.spans()
    }

    /// Exports of runs that the test has not read.
    pub fn waiting(&self) -> usize {
        self.runs.len()
    }

    /// Reads spans of requests until this one is among them.
    pub async fn requests_until(&mut self, name: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        while !spans.iter().any(|span: &Span| span.name == name) {
            spans.extend(soon(self.requests.recv()).await.expect("the collector lives as long as the test").spans());
        }
        spans
    }
}

async fn take(State(behind): State<Behind>, uri: Uri, headers: HeaderMap, bytes: Bytes) -> Response {
    let received = Received { path: uri.path().to_owned(), headers, bytes };
    let spans = received.spans();
    let is_of_requests = spans.iter().all(|span| span.kind == SERVER);
    let (to, answer) =
        if is_of_requests { (&behind.requests, None) } else { (&behind.runs, behind.answers.lock().pop_front()) };
    // The test has ended if nobody receives.
    let _ = to.send(received);
    match answer {
        Some(0) => std::future::pending().await,
        Some(status) => StatusCode::from_u16(status).expect("a status").into_response(),
        None if is_of_requests => StatusCode::OK.into_response(),
        None => ([(header::CONTENT_TYPE, "application/x-protobuf")], behind.taken).into_response(),
    }
}
