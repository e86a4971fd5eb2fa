//! Starting and stopping: the registration, the sweeper, the drain.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Runtime;
use super::clock::Clock;
use super::lease::LeaseKeeper;
use super::model_facts::ModelFacts;
use super::shared::Shared;
use crate::a2a::directory::Directory;
use crate::config::Config;
use crate::domain::fault::Fault;
use crate::engine::Core;
use crate::live::Hub;
use crate::mcp;
use crate::outbox::Outbox;
use crate::provider::Catalog;
use crate::provider::gate::Gates;
use crate::store::document::{Documents, Sealer};
use crate::store::{self, Store};
use crate::tool::Registry;

/// What a runtime is put together from.
pub struct Parts {
    pub config: Arc<Config>,
    pub store: Arc<dyn Store>,
    /// Of the same store.
    pub documents: Arc<Documents>,
    pub mcp: Arc<mcp::Catalog>,
    /// Of the documents' secrets.
    pub sealer: Arc<Sealer>,
    pub outbox: Arc<Outbox>,
    pub agents: Arc<Directory>,
    pub hub: Arc<Hub>,
    pub tools: Arc<Registry>,
    pub models: Arc<dyn Catalog>,
    pub cores: Vec<Arc<dyn Core>>,
    pub clock: Arc<dyn Clock>,
}

/// What the end of a drain keeps for giving the leases back, and for closing the store.
const LAST_STEPS: Duration = Duration::from_millis(1_500);
const CLOSING: Duration = Duration::from_millis(1_000);

/// Why a runtime cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Store(#[from] store::Error),
    /// What is configured cannot be served.
    #[error("{}", .0.detail)]
    Config(#[from] Fault),
}

impl Runtime {
    /// Registers this process and begins to look after its threads: every unfinished run goes on.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let runtime = &parts.config.runtime;
        let name = runtime.replica.clone();
        let lease_keeper = LeaseKeeper::begin(&*parts.store, runtime.lease_ms, name, parts.clock.clone()).await?;
        let mut keyed = HashMap::new();
        for name in parts.config.models.tenant_keys.keys() {
            keyed.insert(parts.store.tenant(name, parts.clock.now()).await?, name.clone());
        }
        let shared = Arc::new(Shared {
            keyed,
            limits: parts.config.of_threads(),
            model_facts: ModelFacts::new(&parts.config, parts.models.clone()),
            gates: Gates::new(&parts.config.models.gate),
            pks: AtomicU64::new(parts.clock.seed()),
            reads: parts.store.for_readers().unwrap_or_else(|| parts.store.clone()),
            store: parts.store,
            documents: parts.documents,
            mcp: parts.mcp,
            sealer: parts.sealer,
            outbox: parts.outbox,
            agents: parts.agents,
            base: OnceLock::new(),
            hub: parts.hub,
            folds: Default::default(),
            tools: parts.tools,
            models: parts.models,
            cores: parts.cores,
            clock: parts.clock,
            config: parts.config,
            lease_keeper,
            actors: Default::default(),
            waiters: Default::default(),
            reports: Default::default(),
            figures: Default::default(),
            listening: Default::default(),
            flights: Default::default(),
            alarm: Default::default(),
            readiness: Default::default(),
            wake_backoff: Default::default(),
            probation: Default::default(),
            draining: CancellationToken::new(),
            halted: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        shared.core(&shared.config.agent.core)?;
        let keeper = shared.clone();
        tokio::spawn(async move { keeper.lease_keeper.keep(keeper.store.clone(), keeper.halted.clone()).await });
        shared.tasks.spawn(shared.clone().sweep());
        shared.tasks.spawn(shared.clone().keep_house());
        shared.tasks.spawn(shared.worker().run(shared.draining.clone()));
        let reader = shared.clone();
        shared.tasks.spawn(async move { reader.draining.run_until_cancelled(reader.documents.follow()).await });
        let reader = shared.clone();
        shared.tasks.spawn(async move { reader.draining.run_until_cancelled(reader.agents.follow()).await });
        tokio::spawn(shared.clone().watch_neighbours());
        Ok(Self(shared))
    }

    /// Starts nothing any more, records what the steps under way come to (for at most `runtime.drain_ms`, then they are
    /// dropped), and gives the leases back. Listeners are told first.
    pub async fn drain(&self) {
        let shared = &self.0;
        if shared.halted.is_cancelled() {
            return;
        }
        let limit = Duration::from_millis(shared.config.runtime.drain_ms).saturating_sub(LAST_STEPS + CLOSING);
        shared.draining.cancel();
        shared.hub.draining(1_000);
        shared.tasks.close();
        if timeout(limit, shared.tasks.wait()).await.is_err() {
            tracing::warn!(threads = self.active_threads(), "steps that did not end in time are dropped");
        }
        shared.halted.cancel();
        shared.mcp.close();
        match timeout(LAST_STEPS, shared.lease_keeper.end(&*shared.store)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the leases were not given back; they expire"),
            Err(_) => tracing::warn!("the leases were not given back in time; they expire"),
        }
    }

    /// Drains, and closes the store; both in `runtime.drain_ms`.
    pub async fn close(&self) {
        self.drain().await;
        if timeout(CLOSING, self.0.store.close()).await.is_err() {
            tracing::warn!("the store was not closed in time");
        }
    }

    /// Threads that take a task and memory right now.
    pub fn active_threads(&self) -> usize {
        self.0.actors.count()
    }
}
