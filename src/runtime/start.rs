//! Starting the runtime: registration, what comes before anything else, the background tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::Runtime;
use super::clock::Clock;
use super::handle::again_after_panics;
use super::lease::LeaseKeeper;
use super::long_queries::LongQueries;
use super::models::ModelAccess;
use super::outgoing::{PreparedSpans, TraceExporter};
use super::own_address::OwnAddress;
use super::shared::{Shared, check_core_names, find_core};
use super::tenant_runs::TenantRuns;
use crate::a2a::directory::Directory;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::console_urls::OwnUrl;
use crate::domain::fault::Fault;
use crate::engine::Core;
use crate::live::Hub;
use crate::outbox::{BatchSender, Batches, Outbox, Worker};
use crate::provider::Catalog;
use crate::store::documents::{DocumentCache, Sealer};
use crate::store::{self, PeopleReads, Store};
use crate::tool::Registry;
use crate::traces::Traces;

/// The parts of a runtime.
#[derive(Clone)]
pub struct Parts {
    pub config: Arc<Config>,
    pub store: Arc<dyn Store>,
    /// Seals the secrets of tenants and agents.
    pub sealer: Arc<Sealer>,
    /// The documents of the same store.
    pub documents: Arc<DocumentCache>,
    pub outbox: Arc<Outbox>,
    /// `None`: no collector is configured.
    pub traces: Option<Arc<Traces>>,
    pub agents: Arc<Directory>,
    pub hub: Arc<Hub>,
    pub tools: Arc<Registry>,
    pub models: Arc<dyn Catalog>,
    pub cores: Vec<Arc<dyn Core>>,
    pub clock: Arc<dyn Clock>,
    /// The URL of this server. `None`: it is set later, or never.
    pub own_url: Option<OwnUrl>,
}

/// Why a runtime cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Something that the configuration names does not exist.
    #[error("{}", .0.in_full())]
    Config(#[from] Fault),
}

impl Runtime {
    /// Registers this process and starts the background tasks. Every unfinished run continues.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        // Before the process is registered: one that ends without unregistering counts as crashed.
        check_core_names(&parts.cores)?;
        find_core(&parts.cores, &parts.config.agent.core)?;
        let runtime = &parts.config.runtime;
        let name = runtime.replica.clone();
        let models = ModelAccess::open(parts.config.clone(), parts.models, &*parts.store, parts.clock.now()).await?;
        // It cannot be taken back: neither a command nor a start that the settings refuse does it.
        match parts.config.store.compress_log {
            Some(true) => parts.store.compress_log().await?,
            None => parts.store.compress_new_log().await?,
            Some(false) => {}
        }
        let lease_keeper = LeaseKeeper::begin(&*parts.store, runtime.lease_ms, name, parts.clock.clone()).await?;
        let trace_exporter = TraceExporter {
            traces: parts.traces,
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            attempt_timeout: parts.outbox.timing.attempt_timeout,
            prepared: PreparedSpans::default(),
        };
        let shared = Arc::new(Shared {
            trace_exporter,
            models,
            limits: parts.config.of_threads(),
            tenant_runs: TenantRuns::default(),
            long_queries: LongQueries::new(),
            pk_counter: AtomicU64::new(parts.clock.seed()),
            reads: PeopleReads::of(&parts.store),
            store: parts.store,
            sealer: parts.sealer,
            documents: parts.documents,
            outbox: parts.outbox,
            agents: parts.agents,
            own_address: OwnAddress::unknown(&parts.config),
            hub: parts.hub,
            tools: parts.tools,
            cores: parts.cores,
            clock: parts.clock,
            config: parts.config,
            lease_keeper,
            actors: Default::default(),
            waiters: Default::default(),
            listening: Default::default(),
            sweeper: Default::default(),
            crash_watch: Default::default(),
            went_back: Default::default(),
            is_restoring: AtomicBool::new(false),
            erased: Notify::new(),
            stop: Default::default(),
        });
        let runtime = Self(shared);
        // Before anything is held back: the messages about it have the URLs of the console.
        if let Some(url) = parts.own_url {
            runtime.set_own_url(url);
        }
        if let Err(error) = runtime.0.prepare().await {
            // Nothing crashed: the next start finds no registration of this one.
            runtime.halt();
            runtime.release_leases().await;
            return Err(error.into());
        }
        runtime.0.spawn_background_tasks();
        Ok(runtime)
    }

    /// The number of threads that have a task in memory now.
    pub fn active_threads(&self) -> usize {
        self.0.actors.count()
    }
}

impl Shared {
    /// What comes before anything else may start.
    async fn prepare(self: &Arc<Self>) -> store::Result<()> {
        self.look_for_crashes().await?;
        self.hold_back_restored().await
    }

    /// The drain waits for the tasks that begin work of their own; the other two go on until it has ended.
    fn spawn_background_tasks(self: &Arc<Self>) {
        let shared = self.clone();
        self.stop.tasks.spawn(again_after_panics("sweep", move || shared.clone().sweep()));
        let shared = self.clone();
        let deliver = move || shared.worker().run(shared.stop.draining.clone());
        self.stop.tasks.spawn(again_after_panics("deliveries", deliver));
        // Also without a collector: it ends deliveries that were queued for an earlier one.
        let shared = self.clone();
        let deliver_batches = move || shared.batches().run(shared.stop.draining.clone());
        self.stop.tasks.spawn(again_after_panics("batches of deliveries", deliver_batches));
        let shared = self.clone();
        tokio::spawn(again_after_panics("other replicas", move || shared.clone().watch_other_replicas()));
        let shared = self.clone();
        let renew = move || {
            let shared = shared.clone();
            async move { shared.lease_keeper.renew_until_stopped(shared.store.clone(), shared.stop.halted.clone()).await }
        };
        tokio::spawn(again_after_panics("lease", renew));
    }

    /// The worker that sends the deliveries of the outbox one by one.
    fn worker(self: &Arc<Self>) -> Arc<Worker> {
        let shared = self.clone();
        let cancel_task = Arc::new(move |delivery| shared.clone().cancel_remote_task(delivery));
        let clock = self.clock.clone();
        Arc::new(Worker {
            store: self.store.clone(),
            outbox: self.outbox.clone(),
            now: self.now_fn(),
            wall: Arc::new(move || clock.wall()),
            cancel_task,
        })
    }

    /// The worker that sends the deliveries to the collector of traces in batches.
    fn batches(self: &Arc<Self>) -> Batches {
        let shared = self.clone();
        let send: BatchSender = Arc::new(move |deliveries| {
            let shared = shared.clone();
            async move { shared.trace_exporter.export(&deliveries).await }.boxed()
        });
        Batches { store: self.store.clone(), outbox: self.outbox.clone(), now: self.now_fn(), send }
    }

    fn now_fn(&self) -> Arc<dyn Fn() -> Millis + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.now())
    }
}
