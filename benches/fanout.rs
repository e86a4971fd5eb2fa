//! One model's tokens to many readers: in the process, and over real WebSockets of a whole server.
//!
//! `cargo bench --features internals --bench fanout`. Measures delivered token frames per second.
#![allow(clippy::unwrap_used, reason = "it shares a server with the tests")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::StreamExt;
use pes::config::Config;
use pes::domain::ids::ThreadPk;
use pes::domain::model::Phase;
use pes::live::{Channel, Hub, Live, StreamHead, Subscription, SubscriptionFilter};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use support::app::App;

#[path = "../tests/it/support/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod support;

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
    app: App,
    sockets: Vec<WebSocketStream<TcpStream>>,
}

impl Audience {
    async fn gather(readers: usize) -> Self {
        let app = App::scripted(&script(), |config| config.agent.history_limit = 0).await;
        let mut audience = Self { app, sockets: Vec::new() };
        audience.ask().await;
        let address = audience.app.address;
        for _ in 0..readers {
            let stream = TcpStream::connect(address).await.expect("the server listens");
            let url = format!("ws://{address}/threads/bench/events?after=latest");
            audience.sockets.push(client_async(url, stream).await.expect("a socket").0);
        }
        audience
    }

    async fn ask(&self) {
        self.app.finish("bench", "Say much.").await;
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
        self.app.stopped().await;
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
fn script() -> String {
    let answer: String = (0..TOKENS).map(|n| format!("word{n} ")).collect();
    let plan = "title = \"Much\", intent = \"Say much\", plan = \"Say it\", todoList = []";
    format!("[[reply]]\njson = {{ {plan}, answer = \"{answer}\" }}\n")
}

criterion_group!(benches, hub, sockets);
criterion_main!(benches);
