//! One model's tokens to many readers: in the process, and over real WebSockets of a whole server.
//!
//! `cargo bench --features internals --bench fanout`. Measures delivered token frames per second.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::StreamExt;
use pes::app::App;
use pes::config::Config;
use pes::domain::ids::ThreadPk;
use pes::domain::model::Phase;
use pes::live::{Channel, Hub, Live, StreamHead, Subscription, SubscriptionFilter};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

const READERS: [usize; 3] = [1, 100, 1000];
/// Tokens per reply.
const TOKENS: usize = 500;

/// Publish and receive, without sockets.
fn hub(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fanout/hub");
    for readers in READERS {
        let hub = Hub::new(Config::default().limits.socket_queue_bytes);
        let pk = ThreadPk(1);
        let mut subscriptions: Vec<Subscription> =
            (0..readers).map(|_| hub.subscribe(pk, SubscriptionFilter::default())).collect();
        group.throughput(Throughput::Elements((TOKENS * readers) as u64));
        group.bench_function(BenchmarkId::from_parameter(readers), |bencher| {
            bencher.iter(|| {
                let stream = hub.open_stream(pk, head());
                for _ in 0..TOKENS {
                    stream.publish(Channel::Response, "token ");
                    subscriptions.iter_mut().for_each(take);
                }
            });
        });
    }
}

fn take(subscription: &mut Subscription) {
    match subscription.try_next() {
        Some(Live::Frame(frame)) => assert!(!frame.json().is_empty()),
        Some(Live::Gap { .. } | Live::Draining(_)) | None => panic!("a reader that keeps up gets every token"),
    }
}

fn head() -> StreamHead {
    StreamHead {
        stream_id: "str_1".into(),
        phase: Phase::Synthesis,
        step_id: None,
        step_description: None,
        thread_id: "thread".into(),
        run_id: "run_1".into(),
        trace_id: "trace".into(),
    }
}

/// A run on a whole server; sockets read it to its end.
fn sockets(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("fanout/websocket");
    group.sample_size(10).measurement_time(Duration::from_secs(10));
    for readers in READERS {
        let mut audience = runtime.block_on(Audience::gather(readers));
        group.throughput(Throughput::Elements((TOKENS * readers) as u64));
        group.bench_function(BenchmarkId::from_parameter(readers), |bencher| {
            bencher.iter_custom(|runs| runtime.block_on(audience.hear(runs)));
        });
        runtime.block_on(audience.leave());
    }
}

struct Audience {
    url: String,
    sockets: Vec<WebSocketStream<TcpStream>>,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
    http: Arc<pes::egress::Egress>,
    _folder: tempfile::TempDir,
}

impl Audience {
    async fn gather(readers: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.store.data_dir = folder.path().to_owned();
        config.agent.history_limit = 0;
        config.models.demo.pace_ms = 0;
        config.models.demo.script = Some(script(&folder));
        let app = App::build(config).await.expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a bound address");
        let state = app.state(address).expect("a sound configuration");
        let stop = CancellationToken::new();
        let server = tokio::spawn(pes::shutdown::run(listener, state, stop.clone()));
        let url = format!("http://{address}/threads/bench");
        let mut audience = Self {
            url,
            sockets: Vec::new(),
            stop,
            server,
            http: Arc::new(pes::egress::Egress::new(Duration::from_secs(5))),
            _folder: folder,
        };
        audience.ask().await;
        for _ in 0..readers {
            let stream = TcpStream::connect(address).await.expect("the server listens");
            let url = format!("ws://{address}/threads/bench/events?after=latest");
            audience.sockets.push(client_async(url, stream).await.expect("a socket").0);
        }
        audience
    }

    /// Posts the query and waits for its end.
    async fn ask(&self) {
        let bounds = pes::egress::Bounds {
            headers: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            total: Duration::from_secs(60),
            bytes: 1 << 20,
        };
        let mut headers = http::HeaderMap::new();
        headers.insert("content-type", "application/json".parse().expect("a header's value"));
        headers.insert("prefer", "wait=60".parse().expect("a header's value"));
        let request = pes::egress::OutgoingRequest {
            method: http::Method::POST,
            to: pes::egress::Destination::Operator(format!("{}/process", self.url).parse().expect("a URL")),
            headers,
            body: r#"{"query":"Say much."}"#.into(),
            bounds,
        };
        let answer = self.http.send(request).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
    }

    /// The time until every socket has received the end of each of these runs.
    async fn hear(&mut self, runs: u64) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..runs {
            let mut hearing: JoinSet<WebSocketStream<TcpStream>> = self.sockets.drain(..).map(to_the_end).collect();
            let began = Instant::now();
            self.ask().await;
            while let Some(socket) = hearing.join_next().await {
                self.sockets.push(socket.expect("a reader"));
            }
            spent += began.elapsed();
        }
        spent
    }

    async fn leave(self) {
        drop(self.sockets);
        self.stop.cancel();
        self.server.await.expect("the server stops");
    }
}

async fn to_the_end(mut socket: WebSocketStream<TcpStream>) -> WebSocketStream<TcpStream> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) if text.contains("\"RUN_FINISHED\"") => return socket,
            Some(Ok(Message::Text(_) | Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("the socket ended early: {other:?}"),
        }
    }
}

/// A direct answer of many tokens.
fn script(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let mut answer = String::new();
    (0..TOKENS).for_each(|n| write!(answer, "word{n} ").expect("a String takes every write"));
    let plan = "title = \"Much\", intent = \"Say much\", plan = \"Say it\", todoList = []";
    let script = format!("[[reply]]\njson = {{ {plan}, answer = \"{answer}\" }}\n");
    let path = folder.path().join("script.toml");
    std::fs::write(&path, script).expect("the folder is ours");
    path
}

criterion_group!(benches, hub, sockets);
criterion_main!(benches);
