//! Starting and stopping the runtime: registration, sweeper, drain.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Runtime;
use super::clock::Clock;
use super::handle::again_after_panics;
use super::lease::LeaseKeeper;
use super::long_queries::LongQueries;
use super::model_book::ConfiguredModels;
use super::model_meters::ModelMeters;
use super::shared::{Shared, find_core};
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
use crate::provider::gate::Gates;
use crate::store::documents::{DocumentCache, Sealer};
use crate::store::{self, Store};
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

/// The part of the drain time that is reserved for storing what interrupted model calls have used.
const INTERRUPT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The part of the drain time that is reserved for releasing the leases and for closing the store.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1_500);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_000);

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
        find_core(&parts.cores, &parts.config.agent.core)?;
        let runtime = &parts.config.runtime;
        let name = runtime.replica.clone();
        let mut keyed = HashMap::new();
        for name in parts.config.models.tenant_keys.keys() {
            keyed.insert(parts.store.tenant(name, parts.clock.now()).await?, name.clone());
        }
        let lease_keeper = LeaseKeeper::begin(&*parts.store, runtime.lease_ms, name, parts.clock.clone()).await?;
        let shared = Arc::new(Shared {
            keyed,
            limits: parts.config.of_threads(),
            configured_models: ConfiguredModels::new(&parts.config, parts.models.clone()),
            model_meters: ModelMeters::new(parts.config.models.chosen()),
            gates: Gates::new(&parts.config.models.gate),
            tenant_runs: TenantRuns::default(),
            long_queries: LongQueries::new(),
            pks: AtomicU64::new(parts.clock.seed()),
            reads: parts.store.for_people().unwrap_or_else(|| parts.store.clone()),
            store: parts.store,
            sealer: parts.sealer,
            documents: parts.documents,
            outbox: parts.outbox,
            traces: parts.traces,
            agents: parts.agents,
            base: OnceLock::new(),
            console_urls: OnceLock::new(),
            hub: parts.hub,
            tools: parts.tools,
            models: parts.models,
            cores: parts.cores,
            clock: parts.clock,
            config: parts.config,
            lease_keeper,
            prepared_spans: Default::default(),
            actors: Default::default(),
            waiters: Default::default(),
            listening: Default::default(),
            alarm: Default::default(),
            wake_backoff: Default::default(),
            probation: Default::default(),
            crash_watch: Default::default(),
            went_back: Default::default(),
            is_restoring: AtomicBool::new(false),
            erased: Notify::new(),
            draining: CancellationToken::new(),
            out_of_time: CancellationToken::new(),
            halted: CancellationToken::new(),
            tasks: TaskTracker::new(),
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

    /// Starts nothing new, and commits the results of running effects, for at most `runtime.drain_ms`. Then model calls are
    /// interrupted, and their usage so far is stored; what still runs after that is dropped. Subscribers get a notice first.
    /// `false`: it was called before.
    pub(crate) async fn stop(&self) -> bool {
        let shared = &self.0;
        if shared.halted.is_cancelled() {
            return false;
        }
        let limit =
            Duration::from_millis(shared.config.runtime.drain_ms).saturating_sub(RELEASE_TIMEOUT + CLOSE_TIMEOUT);
        let interrupt_timeout = INTERRUPT_TIMEOUT.min(limit);
        shared.draining.cancel();
        shared.hub.publish_draining(1_000);
        shared.tasks.close();
        if timeout(limit - interrupt_timeout, shared.tasks.wait()).await.is_err() {
            tracing::warn!(threads = self.active_threads(), "steps that did not end in time are stopped");
            shared.out_of_time.cancel();
            // A tool that still runs is dropped.
            timeout(interrupt_timeout, shared.tasks.wait()).await.ok();
        }
        shared.halted.cancel();
        true
    }

    /// Drops everything that runs in this process. Nothing starts after it.
    pub(crate) fn halt(&self) {
        self.0.draining.cancel();
        self.0.halted.cancel();
    }

    /// Releases the leases. Called when nothing runs any more.
    pub(crate) async fn release_leases(&self) {
        let shared = &self.0;
        match timeout(RELEASE_TIMEOUT, shared.lease_keeper.end(&*shared.store)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the leases were not given back; they expire"),
            Err(_) => tracing::warn!("the leases were not given back in time; they expire"),
        }
    }

    /// Closes the store. Called after the leases are released.
    pub(crate) async fn close_store(&self) {
        if timeout(CLOSE_TIMEOUT, self.0.store.close()).await.is_err() {
            tracing::warn!("the store was not closed in time");
        }
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
        self.tasks.spawn(again_after_panics("sweep", move || shared.clone().sweep()));
        let shared = self.clone();
        let deliver = move || shared.worker().run(shared.draining.clone());
        self.tasks.spawn(again_after_panics("deliveries", deliver));
        // Also without a collector: it ends deliveries that were queued for an earlier one.
        let shared = self.clone();
        let deliver_batches = move || shared.batches().run(shared.draining.clone());
        self.tasks.spawn(again_after_panics("batches of deliveries", deliver_batches));
        let shared = self.clone();
        tokio::spawn(again_after_panics("other replicas", move || shared.clone().watch_other_replicas()));
        let shared = self.clone();
        let renew = move || {
            let shared = shared.clone();
            async move { shared.lease_keeper.renew_until_stopped(shared.store.clone(), shared.halted.clone()).await }
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
            async move { shared.export_ranges(&deliveries).await }.boxed()
        });
        Batches { store: self.store.clone(), outbox: self.outbox.clone(), now: self.now_fn(), send }
    }

    fn now_fn(&self) -> Arc<dyn Fn() -> Millis + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.now())
    }
}
