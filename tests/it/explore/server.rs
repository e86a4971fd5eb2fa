//! A whole server on a store that outlives it. Requests reach its routes without sockets; sockets reach it too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use pes::auth::Keys;
use pes::config::ConfiguredKey;
use pes::domain::Millis;
use pes::domain::retention::Kept;
use pes::http::{AppState, router};
use pes::store::Store;
use pes::{Clock, Config, Instance, shutdown};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::model::{Only, Scripted};
use super::tools::Calls;
use crate::support::clocked::TODAY;
use crate::support::demo;
use crate::support::http::{Said, soon, until};
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};

pub const TENANTS: [&str; 2] = ["one", "two"];
/// Leases that never expire by themselves.
const LEASE_MS: Millis = 3_600_000;

/// What the processes of a seed share.
#[derive(Clone)]
pub struct Parts {
    /// The store for what the test reads, and with SQLite for all processes.
    pub store: Arc<dyn Store>,
    /// The PostgreSQL on which each process has a store of its own.
    pub database: Option<Arc<Database>>,
    pub clock: Arc<Running>,
    pub model: Arc<Scripted>,
    pub calls: Arc<Calls>,
    pub idle_ms: u64,
}

/// A clock that runs, and that a test puts forward.
pub struct Running {
    since: Instant,
    ahead: AtomicI64,
    seeds: AtomicU64,
}

impl Running {
    pub fn new() -> Self {
        Self { since: Instant::now(), ahead: AtomicI64::new(0), seeds: AtomicU64::new(1) }
    }

    pub fn put_forward(&self, by: Millis) {
        self.ahead.fetch_add(by, Ordering::SeqCst);
    }

    /// How long it has run.
    pub fn age(&self) -> Millis {
        self.now() - TODAY
    }
}

impl Clock for Running {
    fn now(&self) -> Millis {
        TODAY + self.uptime().as_millis() as Millis + self.ahead.load(Ordering::SeqCst)
    }
    fn uptime(&self) -> Duration {
        self.since.elapsed()
    }
    fn seed(&self) -> u64 {
        self.seeds.fetch_add(0x9E37_79B9, Ordering::SeqCst)
    }
}

/// The clock of one process, whose machine may be suspended.
pub struct Own {
    shared: Arc<Running>,
    suspended: AtomicI64,
}

impl Clock for Own {
    fn now(&self) -> Millis {
        self.shared.now()
    }
    fn uptime(&self) -> Duration {
        self.shared.uptime() + Duration::from_millis(self.suspended.load(Ordering::SeqCst).unsigned_abs())
    }
    fn seed(&self) -> u64 {
        self.shared.seed()
    }
}

/// A request of a tenant.
#[derive(Clone, Debug)]
pub struct Ask {
    pub tenant: usize,
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

impl Ask {
    pub fn new(tenant: usize, method: &'static str, path: impl Into<String>) -> Self {
        Self { tenant, method, path: path.into(), headers: Vec::new(), body: None }
    }

    pub fn get(tenant: usize, path: impl Into<String>) -> Self {
        Self::new(tenant, "GET", path)
    }

    pub fn post(tenant: usize, path: impl Into<String>, body: &Value) -> Self {
        Self::new(tenant, "POST", path).typed("application/json", body.to_string())
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn typed(mut self, media_type: &str, body: String) -> Self {
        self.body = Some(body);
        self.header("content-type", media_type)
    }
}

pub struct Server {
    /// Its place among the replicas, by which it is named.
    pub at: usize,
    pub instance: Instance,
    pub store: Arc<Moody>,
    pub door: Door,
    clock: Arc<Own>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// Where clients reach a process.
#[derive(Clone)]
pub struct Door {
    pub address: SocketAddr,
    router: Router,
    /// The process was killed: its connections are gone.
    pub gone: CancellationToken,
}

fn config(idle_ms: u64) -> Config {
    let mut config = demo::at_once();
    let key = |tenant: &str| format!("{tenant}/admin-{tenant}:admin:{}", secret(tenant));
    config.auth.keys = TENANTS.iter().map(|tenant| key(tenant).parse::<ConfiguredKey>().unwrap()).collect();
    config.models.gate.breaker_failures = 1_000_000;
    config.runtime.idle_ms = idle_ms;
    // Calls get a tenth of a second to end when the process stops.
    config.runtime.drain_ms = 2_600;
    config.retention.thread_days = Kept::FOREVER;
    config.retention.log_days = Kept::Days(30);
    config
}

fn secret(tenant: &str) -> String {
    format!("key-{tenant}-0123456789abcdef0123456789")
}

/// What a tenant's requests carry.
pub fn bearer(tenant: usize) -> String {
    format!("Bearer {}", secret(TENANTS[tenant]))
}

impl Server {
    pub async fn start(parts: &Parts, at: usize) -> Self {
        let inner: Arc<dyn Store> = match &parts.database {
            Some(database) => store_on(database).await,
            None => parts.store.clone(),
        };
        let store = Moody::over(inner);
        let mut config = config(parts.idle_ms);
        // With SQLite this is how often the server looks at the clock.
        config.runtime.lease_ms = if parts.database.is_some() { LEASE_MS } else { 1_500 };
        config.runtime.replica = parts.database.is_some().then(|| name(at));
        let clock = Arc::new(Own { shared: parts.clock.clone(), suspended: AtomicI64::new(0) });
        let built = Instance::build(config.clone()).store(store.clone()).clock(clock.clone());
        let built = parts.calls.tools().fold(built, |built, tool| built.tool(tool));
        let instance = built.models(Arc::new(Only(parts.model.clone()))).open().await.unwrap();
        let wall = parts.clock.clone();
        let keys = Keys::open(&config.auth, store.clone(), Arc::new(move || wall.now())).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = AppState::new(config, instance.service().clone(), Arc::new(keys), address).unwrap();
        let door = Door { address, router: router(state.clone()), gone: CancellationToken::new() };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(shutdown::run(listener, state, stop.clone()));
        Self { at, instance, store, door, clock, stop, serving }
    }

    pub async fn send(&self, ask: Ask) -> Said {
        self.door.send(ask).await
    }

    /// The process stops in order.
    pub async fn drain(&mut self) {
        self.stop.cancel();
        soon(&mut self.serving).await.unwrap();
    }

    /// From here on nothing of this process reaches the store, as after kill -9.
    pub fn die(&self) {
        self.end_lease();
        self.store.set("commit", Mood::Hangs);
        self.store.set("*", Mood::Fails);
        self.door.gone.cancel();
    }

    /// The process does not reach the store for longer than its lease.
    pub fn freeze(&self) {
        self.end_lease();
        for call in ["commit", "*"] {
            self.store.set(call, Mood::Hangs);
        }
    }

    /// The store answers again. Returns once the process has another lease.
    pub async fn thaw(&self) {
        for call in ["*", "commit"] {
            self.store.set(call, Mood::Well);
        }
        let is_ready = async || self.door.ask(Ask::get(0, "/readyz")).await.status == 200;
        until("it has a lease", is_ready).await;
    }

    /// Nothing starts any more under the lease of this process.
    fn end_lease(&self) {
        self.clock.suspended.fetch_add(LEASE_MS, Ordering::SeqCst);
    }
}

/// The name of a replica.
pub fn name(at: usize) -> String {
    format!("r{at}")
}

impl Door {
    pub async fn send(&self, ask: Ask) -> Said {
        let said = self.ask(ask.clone()).await;
        assert!(said.status < 500, "{ask:?}: {} {}", said.status, said.text());
        said
    }

    /// The same with any answer.
    pub async fn ask(&self, ask: Ask) -> Said {
        let answer = soon(self.open(&ask)).await;
        let status = answer.status().as_u16();
        let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = soon(to_bytes(answer.into_body(), usize::MAX)).await.expect("a whole body").to_vec();
        Said { status, headers, body }
    }

    /// The answer, whose body may have no end.
    pub async fn open(&self, ask: &Ask) -> Response {
        let mut request = Request::builder().method(ask.method).uri(&ask.path);
        request = request.header("host", self.address.to_string());
        request = request.header("authorization", bearer(ask.tenant));
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(ask.body.clone().unwrap_or_default())).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}
