//! The handle that every use case takes, how it is put together, and how it ends.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::audit;
use super::callbacks::Reports;
use super::changes::Feeds;
use super::feed::Folds;
use super::figures::Read;
use super::housekeeping;
use super::once::KeyLocks;
use super::readiness::Readiness;
use super::retention;
use super::schedules;
use crate::a2a::directory::Directory;
use crate::auth::AuditKey;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::ids::{Mint, ThreadPk};
use crate::live::Hub;
use crate::mcp;
use crate::outbox::Outbox;
use crate::provider::Catalog;
use crate::runtime::{self, Runtime, StartError, inline};
use crate::store::documents::{DocumentCache, Sealer};
use crate::store::{self, Store};
use crate::tool::Registry;
use crate::traces::Traces;

/// What the use cases work with; clones share it.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

/// See [`Service`].
pub struct Inner {
    pub(super) runtime: Runtime,
    pub(super) store: Arc<dyn Store>,
    /// The same store, for what people read: lists, logs, whole threads. A row by its key is read by either.
    pub(super) reads: Arc<dyn Store>,
    /// What tenants configured.
    pub(super) documents: Arc<DocumentCache>,
    pub(super) mcp: Arc<mcp::Catalog>,
    pub(super) sealer: Arc<Sealer>,
    /// What signs checkpoints of the audit and receipts; `None`: nothing does.
    pub(super) audit_key: Option<Arc<AuditKey>>,
    pub(super) outbox: Arc<Outbox>,
    /// Those that work can be given to.
    pub(super) agents: Arc<Directory>,
    pub(super) hub: Arc<Hub>,
    pub(super) tools: Arc<Registry>,
    pub(super) models: Arc<dyn Catalog>,
    pub(super) config: Arc<Config>,
    /// Of lists, for pages of logs.
    pub(super) folds: Arc<Folds>,
    /// Of everything, for states of the past.
    pub(super) states: Arc<Folds>,
    pub(super) key_locks: KeyLocks,
    pub(super) feeds: Feeds,
    pub(super) reports: Reports,
    pub(super) figures: Read,
    pub(super) readiness: Readiness,
    pub(super) schedules: schedules::Planned,
}

/// What a service is put together from.
pub struct Parts {
    pub runtime: runtime::Parts,
    /// Of the same store.
    pub documents: Arc<DocumentCache>,
    pub mcp: Arc<mcp::Catalog>,
}

impl Service {
    /// Starts the runtime, which goes on with every unfinished run, and what is done beside it: following what tenants
    /// configure and what agents' cards say, and forgetting what is kept for a while only.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { runtime: parts, documents, mcp } = parts;
        let service = Self(Arc::new(Inner {
            runtime: Runtime::start(parts.clone()).await?,
            reads: parts.store.for_readers().unwrap_or_else(|| parts.store.clone()),
            store: parts.store,
            documents,
            mcp,
            sealer: parts.sealer,
            audit_key: parts.config.auth.audit_key.as_ref().and_then(AuditKey::of).map(Arc::new),
            outbox: parts.outbox,
            agents: parts.agents,
            hub: parts.hub,
            tools: parts.tools,
            models: parts.models,
            config: parts.config,
            folds: Default::default(),
            states: Default::default(),
            key_locks: Default::default(),
            feeds: Default::default(),
            reports: Default::default(),
            figures: Default::default(),
            readiness: Default::default(),
            schedules: Default::default(),
        }));
        let (documents, agents) = (service.documents.clone(), service.agents.clone());
        service.runtime.spawn_until_drain(async move { documents.follow().await });
        service.runtime.spawn_until_drain(async move { agents.follow().await });
        service.runtime.spawn_until_drain(housekeeping::run(service.clone()));
        service.runtime.spawn_until_drain(housekeeping::erase(service.clone()));
        service.runtime.spawn_until_drain(audit::run(service.clone()));
        service.runtime.spawn_until_drain(retention::run(service.clone()));
        service.runtime.spawn_until_drain(schedules::run(service.clone()));
        Ok(service)
    }

    /// Starts nothing any more, records what the steps under way come to (for at most `runtime.drain_ms`, then they are
    /// dropped), ends the MCP servers and gives the leases back. Listeners get a notice first.
    pub async fn drain(&self) {
        if self.runtime.stop().await {
            self.mcp.close();
            self.runtime.release_leases().await;
        }
    }

    /// Drains, and closes the store; both in `runtime.drain_ms`.
    pub async fn close(&self) {
        self.drain().await;
        self.runtime.close_store().await;
    }

    /// Threads that take a task and memory right now.
    pub fn active_threads(&self) -> usize {
        self.runtime.active_threads()
    }

    /// The MCP servers of all tenants.
    pub fn mcp(&self) -> &Arc<mcp::Catalog> {
        &self.mcp
    }

    /// Where this server is listened for, once that is known: agents report there.
    /// `is_public`: it is the configured one.
    pub fn served_at(&self, base: String, is_public: bool) {
        self.runtime.set_base_url(base, is_public);
    }

    pub fn now(&self) -> Millis {
        self.runtime.now()
    }

    /// Where a collector of traces is told of requests, if there is one.
    pub(crate) fn traces(&self) -> Option<&Arc<Traces>> {
        self.runtime.traces()
    }

    pub(super) fn mint(&self) -> Mint {
        self.runtime.mint()
    }

    /// `value` with its payloads, for people.
    pub(super) async fn shown(&self, pk: ThreadPk, value: Value) -> store::Result<Value> {
        inline::whole(&*self.reads, pk, value).await
    }
}

impl Deref for Service {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
