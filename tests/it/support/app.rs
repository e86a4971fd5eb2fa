//! A whole server in the test's own process: port 0, its own store, the demo model without delays.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pes::auth::{Issuers, Keys, Now};
use pes::config::{Config, ConfiguredKey, Synchronous};
use pes::egress::Egress;
use pes::http::AppState;
use pes::store::Store;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::demo::{self, SCRIPT};
use super::http::{Ask, PATIENCE, Said, soon};
use super::store::Moody;
use super::ws::{Refused, Socket};

/// The default configuration with a folder of its own, this script, and no delays.
fn settings(script: &str, change: impl FnOnce(&mut Config)) -> (Config, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = demo::scripted(script);
    config.store.data_dir = folder.path().join("data");
    // No data must outlive a test.
    config.store.synchronous = Synchronous::Normal;
    change(&mut config);
    (config, folder)
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    (listener, address)
}

pub struct App {
    pub address: SocketAddr,
    key: Option<String>,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
    mcp: Arc<pes::mcp::Catalog>,
    _folder: TempDir,
}

impl App {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server with another configuration.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::scripted(SCRIPT, change).await
    }

    /// The same with a demo model that answers by this script.
    pub async fn scripted(script: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (config, folder) = settings(script, change);
        let (listener, address) = bind().await;
        let app = pes::app::App::build(config).await.unwrap_or_else(|error| panic!("{error}"));
        let state = app.state(address).expect("a sound configuration");
        Self::serve(listener, state, app.service.mcp().clone(), folder)
    }

    /// A server on a store that the test can also access.
    pub async fn of(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Self {
        let (config, folder) = settings(SCRIPT, change);
        let (listener, address) = bind().await;
        let app = pes::app::App::with_store(store, config).await.unwrap_or_else(|error| panic!("{error}"));
        let state = app.state(address).expect("a sound configuration");
        let mcp = app.service.mcp().clone();
        Self::serve(listener, state, mcp, folder)
    }

    /// A server whose keys and tokens end by this clock.
    pub async fn with_clock_of_keys(now: Now, change: impl FnOnce(&mut Config)) -> Self {
        let (config, folder) = settings(SCRIPT, change);
        let (listener, address) = bind().await;
        let store = Moody::fresh().await;
        let app =
            pes::app::App::with_store(store.clone(), config.clone()).await.unwrap_or_else(|error| panic!("{error}"));
        let issuers = Issuers::new(&config.auth.oidc, &Arc::new(Egress::new(PATIENCE))).expect("sound issuers");
        let keys = Keys::open(&config.auth, store, now).await.expect("the store answers").with_issuers(issuers);
        let state = AppState::new(config, app.service.clone(), Arc::new(keys), address).expect("a sound configuration");
        Self::serve(listener, state, app.service.mcp().clone(), folder)
    }

    fn serve(listener: TcpListener, state: AppState, mcp: Arc<pes::mcp::Catalog>, folder: TempDir) -> Self {
        let address = listener.local_addr().expect("a bound address");
        let stop = CancellationToken::new();
        let serving = Some(tokio::spawn(pes::shutdown::run(listener, state, stop.clone())));
        Self { address, key: None, stop, serving, mcp, _folder: folder }
    }

    /// A server with keys `a` and `b` of two tenants, and `reader`, which may only read.
    pub async fn with_keys() -> Self {
        Self::with_keys_and(|_| {}).await
    }

    /// The same with another configuration.
    pub async fn with_keys_and(change: impl FnOnce(&mut Config)) -> Self {
        let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
        Self::with(|config| {
            // An address where nothing listens.
            config.egress.allow.push("127.0.0.1:1".to_owned());
            config.auth.keys = vec![
                key("one/admin-a:admin:key-a-0123456789abcdef0123456789"),
                key("two/admin-b:admin:key-b-0123456789abcdef0123456789"),
                key("one/reader:read:reader-0123456789abcdef0123456789"),
            ];
            change(config);
        })
        .await
    }

    /// Every later request carries this key.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub fn ask(&self, method: &str, path: &str) -> Ask {
        let ask = Ask::new(self.address, method, path);
        match &self.key {
            Some(key) => ask.key(key),
            None => ask,
        }
    }

    pub async fn get(&self, path: &str) -> Said {
        self.ask("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: Value) -> Said {
        self.ask("POST", path).json(&body).send().await
    }

    /// The stored observations of these types, in the order of the log.
    pub async fn observed(&self, thread: &str, types: &str) -> Vec<Value> {
        let page = self.get(&format!("/threads/{thread}/events?types={types}")).await.expect(200);
        page["items"].as_array().expect("a list").clone()
    }

    /// The phase and the stream of each model call of the thread, in the order of the log.
    pub async fn model_calls(&self, thread: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let calls = self.observed(thread, "LLM_STREAM_START").await.into_iter();
        calls.map(|call| (text(&call["content"]["phase"]), text(&call["content"]["streamId"]))).collect()
    }

    /// What a model call saw, as JSON.
    pub async fn prompt(&self, thread: &str, stream: &str) -> String {
        self.get(&format!("/threads/{thread}/streams/{stream}")).await.expect(200).to_string()
    }

    /// Waits until this tool is offered.
    pub async fn offers(&self, tool: &str) {
        let mut offers = self.mcp.offers();
        let is_offered = async || {
            let tools = self.get("/tools").await.expect(200);
            tools["items"].as_array().expect("a list").iter().any(|shown| shown["name"] == tool)
        };
        while !is_offered().await {
            soon(offers.changed()).await.expect("the server runs");
        }
    }

    /// Sends a query, and waits for the end of its run.
    pub async fn finish(&self, thread: &str, query: &str) -> Value {
        let ask = self.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
        ask.json(&json!({ "query": query })).send().await.expect(200)
    }

    /// Sends a query, and waits for the suspension.
    pub async fn suspend(&self, thread: &str, query: &str) -> Value {
        let ask = self.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
        let receipt = ask.json(&json!({ "query": query })).send().await.expect(202);
        assert_eq!(receipt["status"], "suspended", "{receipt:#}");
        receipt["suspensions"][0].clone()
    }

    /// Waits for the next suspension, even if other calls still run: the content of `AGENT_SUSPENDED`.
    pub async fn asked(&self, thread: &str) -> Value {
        let ask = self.ask("GET", &format!("/threads/{thread}/events?types=AGENT_SUSPENDED&tokens=false"));
        let mut events = ask.header("accept", "text/event-stream").events().await;
        loop {
            let event = soon(events.next()).await.expect("it goes on");
            if event.event == "observation" {
                return event.data["content"].clone();
            }
        }
    }

    /// Returns after longer than a reader may take over one frame without being slow.
    pub async fn outlast_a_frame(&self) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            self.get("/healthz").await.expect(200);
        }
    }

    pub async fn socket(&self, path: &str) -> Socket {
        self.try_socket(path, &[]).await.expect("a socket")
    }

    pub async fn try_socket(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, Refused> {
        let bearer = self.key.as_ref().map(|key| format!("Bearer {key}"));
        let mut headers = headers.to_vec();
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        Socket::open(self.address, path, &headers).await
    }

    /// Starts to stop; `stopped` waits for the end.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    pub async fn stopped(mut self) {
        self.stop.cancel();
        let serving = self.serving.take().expect("it is waited for once");
        soon(serving).await.expect("it stops");
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}
