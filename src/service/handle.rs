//! The handle that every use case takes, how it is put together, and how it ends.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::audit;
use super::callbacks::PendingReports;
use super::changes::Feeds;
use super::feed::FoldCache;
use super::figures::CachedFigures;
use super::housekeeping;
use super::once::KeyLocks;
use super::readiness::Readiness;
use super::retention;
use super::schedules;
use super::tenants;
use super::threads::RunCostCache;
use super::transfer::RecentExports;
use crate::a2a::directory::Directory;
use crate::auth::AuditKey;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::console_urls::OwnUrl;
use crate::domain::ids::{Mint, ThreadPk};
use crate::live::Hub;
use crate::mcp;
use crate::outbox::Outbox;
use crate::provider::Catalog;
use crate::runtime::{self, Runtime, StartError, inline};
use crate::store::documents::{DocumentCache, Sealer};
use crate::store::{self, PeopleReads, Store};
use crate::tool::Registry;
use crate::traces::Traces;

/// The handle that the use cases work with. Clones share it.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// What the use cases find in a [`Service`].
#[allow(unnameable_types, reason = "the use cases reach it through `Service`; nobody else sees anything of it")]
pub struct Inner {
    pub(super) runtime: Runtime,
    pub(super) store: Arc<dyn Store>,
    pub(super) reads: PeopleReads,
    /// The documents that tenants configured.
    pub(super) documents: Arc<DocumentCache>,
    pub(super) mcp: Arc<mcp::Catalog>,
    pub(super) sealer: Arc<Sealer>,
    /// Signs checkpoints of the audit, and receipts. `None`: they are not signed.
    pub(super) audit_key: Option<Arc<AuditKey>>,
    pub(super) outbox: Arc<Outbox>,
    /// The agents to which tasks can be delegated.
    pub(super) agents: Arc<Directory>,
    pub(super) hub: Arc<Hub>,
    pub(super) tools: Arc<Registry>,
    pub(super) models: Arc<dyn Catalog>,
    pub(super) config: Arc<Config>,
    /// These folds hold the todo lists only. Readers of log pages continue from them.
    pub(super) list_folds: Arc<FoldCache>,
    /// These folds hold everything that a thread's state consists of. Reads of a past state continue from them.
    pub(super) state_folds: Arc<FoldCache>,
    pub(super) key_locks: KeyLocks,
    pub(super) feeds: Feeds,
    pub(super) reports: PendingReports,
    pub(super) figures: CachedFigures,
    pub(super) readiness: Readiness,
    pub(super) schedules: schedules::PlannerState,
    pub(super) exports: RecentExports,
    pub(super) run_costs: RunCostCache,
}

/// The components from which a service is built.
pub(crate) struct Parts {
    pub(crate) runtime: runtime::Parts,
    pub(crate) mcp: Arc<mcp::Catalog>,
}

impl Service {
    /// Starts the runtime, which resumes every unfinished run, and the background tasks: refreshing the documents and the
    /// agents' cards, deleting what expired and what removed tenants have, chaining the audit, retention,
    /// schedules.
    pub(crate) async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { runtime: parts, mcp } = parts;
        let service = Self(Arc::new(Inner {
            runtime: Runtime::start(parts.clone()).await?,
            reads: PeopleReads::of(&parts.store),
            store: parts.store,
            documents: parts.documents,
            mcp,
            sealer: parts.sealer,
            audit_key: parts.config.auth.audit_key.as_ref().and_then(AuditKey::of).map(Arc::new),
            outbox: parts.outbox,
            agents: parts.agents,
            hub: parts.hub,
            tools: parts.tools,
            models: parts.models,
            config: parts.config,
            list_folds: Default::default(),
            state_folds: Default::default(),
            key_locks: Default::default(),
            feeds: Default::default(),
            reports: Default::default(),
            figures: Default::default(),
            readiness: Default::default(),
            schedules: Default::default(),
            exports: Default::default(),
            run_costs: Default::default(),
        }));
        // Followed to the end of the drain: what still runs then is judged by the current policies and caps.
        let documents = service.documents.clone();
        service.runtime.spawn_through_drain("documents", move || {
            let documents = documents.clone();
            async move { documents.follow().await }
        });
        service.spawn("agents", |service| async move { service.agents.follow().await });
        service.spawn("housekeeping", housekeeping::run);
        service.spawn("erasure", housekeeping::run_erasure);
        service.spawn("audit", audit::run);
        service.spawn("retention", retention::run);
        service.spawn("schedules", schedules::run);
        service.spawn("removed tenants", tenants::run);
        Ok(service)
    }

    /// Spawns a background task, which ends when the server drains, and begins again if it panics.
    fn spawn<W>(&self, name: &'static str, task: impl Fn(Service) -> W + Send + 'static)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let service = self.clone();
        self.runtime.spawn_until_drain(name, move || task(service.clone()));
    }

    /// Starts no new effects and commits the results of the running ones, for at most `runtime.drain_ms`; those that take
    /// longer are dropped. Then ends the MCP servers and releases the leases. Subscribers are notified first.
    pub async fn drain(&self) {
        if self.runtime.stop().await {
            self.mcp.close();
            self.runtime.release_leases().await;
        }
    }

    /// Drops what still runs, and releases the leases at once. The next start continues as after a crash, and counts none.
    pub(crate) async fn give_up(&self) {
        self.runtime.halt();
        self.runtime.release_leases().await;
    }

    /// Drains, then closes the store. Both together take at most `runtime.drain_ms`.
    pub async fn close(&self) {
        self.drain().await;
        self.runtime.close_store().await;
    }

    /// Returns when it was drained: nothing runs in this process any more.
    pub(crate) async fn stopped(&self) {
        self.runtime.stopped().await;
    }

    /// How many threads have an actor in memory now.
    pub fn active_threads(&self) -> usize {
        self.runtime.active_threads()
    }

    /// The MCP servers of all tenants.
    #[cfg(feature = "internals")]
    pub fn mcp(&self) -> &Arc<mcp::Catalog> {
        &self.mcp
    }

    /// Sets the URL under which this server is reached, as soon as it is known. Agents send their reports there.
    pub(crate) fn served_at(&self, url: OwnUrl) {
        self.runtime.set_own_url(url);
    }

    pub fn now(&self) -> Millis {
        self.runtime.now()
    }

    /// The time by the clock of the machine, by which keys expire.
    pub fn wall(&self) -> Millis {
        self.runtime.wall()
    }

    /// Exports the spans of requests, if a collector of traces is configured.
    pub(crate) fn traces(&self) -> Option<&Arc<Traces>> {
        self.runtime.traces()
    }

    pub(super) fn mint(&self) -> Mint {
        self.runtime.mint()
    }

    /// Returns `value` with its payload references replaced by the payloads.
    pub(super) async fn with_payloads(&self, pk: ThreadPk, value: Value) -> store::Result<Value> {
        inline::with_payloads(&*self.reads, pk, value).await
    }
}

impl Deref for Service {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
