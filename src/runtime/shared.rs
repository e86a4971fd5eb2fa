//! The state that all parts of the runtime share: the store, the clients it calls with, the configuration, the actors.
//!
//! The methods that belong to one part are in its file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actors::Actors;
use super::clock::Clock;
use super::crash_watch::CrashWatch;
use super::lease::LeaseKeeper;
use super::listening::ListenedTasks;
use super::long_queries::LongQueries;
use super::model_book::ConfiguredModels;
use super::model_meters::ModelMeters;
use super::prepared_spans::PreparedSpans;
use super::probation::Probation;
use super::sweep::Alarm;
use super::tenant_runs::TenantRuns;
use super::waiters::Waiters;
use super::wakeups::WakeBackoff;
use super::went_back::WentBack;
use crate::a2a::directory::Directory;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{Mint, TenantPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{Run, RunResource};
use crate::domain::thread::Limits;
use crate::engine::{Allowance, Core, RunAdmission, World};
use crate::live::Hub;
use crate::outbox::Outbox;
use crate::provider::gate::Gates;
use crate::provider::{Catalog, ChatModel};
use crate::store::Store;
use crate::store::documents::{DocumentCache, Sealer};
use crate::tool::{Registry, Toolset};
use crate::traces::Traces;

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    /// The same store over the connections for readers: lists, logs, whole threads. Single rows are read over either.
    pub(super) reads: Arc<dyn Store>,
    pub(super) sealer: Arc<Sealer>,
    /// What tenants configured.
    pub(super) documents: Arc<DocumentCache>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) traces: Option<Arc<Traces>>,
    pub(super) prepared_spans: PreparedSpans,
    /// The agents that tasks can be delegated to.
    pub(super) agents: Arc<Directory>,
    /// The base URL of this server, once the listener is bound.
    pub(super) base: OnceLock<String>,
    /// The URLs of the console; not set if people cannot open the base URL.
    pub(super) console_urls: OnceLock<ConsoleUrls>,
    pub(super) hub: Arc<Hub>,
    pub(super) tools: Arc<Registry>,
    pub(super) models: Arc<dyn Catalog>,
    /// The names of tenants that have keys of their own.
    pub(super) keyed: HashMap<TenantPk, String>,
    pub(super) cores: Vec<Arc<dyn Core>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) config: Arc<Config>,
    pub(super) limits: Limits,
    pub(super) configured_models: ConfiguredModels,
    pub(super) model_meters: ModelMeters,
    pub(super) gates: Gates,
    pub(super) tenant_runs: TenantRuns,
    pub(super) long_queries: LongQueries,
    pub(super) lease_keeper: LeaseKeeper,
    pub(super) actors: Actors,
    pub(super) waiters: Waiters,
    pub(super) listening: ListenedTasks,
    pub(super) alarm: Alarm,
    pub(super) wake_backoff: WakeBackoff,
    pub(super) probation: Probation,
    pub(super) crash_watch: CrashWatch,
    pub(super) went_back: WentBack,
    /// The runs of a restored database are being held back.
    pub(super) is_restoring: AtomicBool,
    /// Notified when a thread was deleted, so that its remains can be removed.
    pub(super) erased: Notify,
    /// Cancelled when the drain begins: nothing new starts, results of running effects are still committed.
    pub(super) draining: CancellationToken,
    /// Cancelled shortly before the drain ends: model calls are interrupted and report their usage so far.
    pub(super) out_of_time: CancellationToken,
    /// Cancelled when the drain ends: everything that still runs is dropped.
    pub(super) halted: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) pks: AtomicU64,
}

/// The agent core of this name; the fault lists those that there are.
pub(crate) fn find_core<'c>(cores: &'c [Arc<dyn Core>], name: &str) -> Result<&'c Arc<dyn Core>, Fault> {
    cores.iter().find(|core| core.name() == name).ok_or_else(|| {
        let known: Vec<&str> = cores.iter().map(|core| core.name()).collect();
        Fault::new(Code::Invalid, format!("There is no agent core `{name}`; use one of: {}.", known.join(", ")))
    })
}

impl Shared {
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(super) fn mint(&self) -> Mint {
        Mint::new(self.clock.now(), self.clock.seed())
    }

    /// The provider's client, with the tenant's own key where it has one.
    pub(super) fn model(&self, tenant: TenantPk, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        match self.keyed.get(&tenant) {
            Some(name) => self.models.model_of(name, provider),
            None => self.models.model(provider),
        }
    }

    /// The input of decisions besides the thread: its tenant's tools, facts about models, and the limits.
    pub(super) fn world<'a>(&'a self, tools: &'a Toolset) -> World<'a> {
        World {
            tools,
            models: &self.configured_models,
            limits: &self.limits,
            allowance: &Allowance::Uncapped,
            admission: RunAdmission::Now,
        }
    }

    pub(super) fn core(&self, name: &str) -> Result<&Arc<dyn Core>, Fault> {
        find_core(&self.cores, name)
    }

    /// Refuses requests that start or change something once the server is stopping.
    pub(super) fn accepting(&self) -> Result<(), Fault> {
        if self.draining.is_cancelled() { Err(stopping()) } else { Ok(()) }
    }

    /// The URLs of the console; `None`: no address is known.
    pub(super) fn console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls.get()
    }

    /// The URLs of the console for other agents; `None`: no public address is configured.
    pub(super) fn public_console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls().filter(|urls| urls.is_public())
    }

    /// A run as clients see it, with its URL in the console.
    pub(super) fn resource(&self, run: &Run, answer: Option<ConversationMessage>) -> RunResource {
        let url = self.console_urls().map(|urls| urls.run(&run.thread_id, &run.run_id));
        RunResource { url, ..run.resource(answer) }
    }

    /// The base URL for callbacks; `None`: the agent could not reach it, so it is polled.
    pub(super) fn base_for(&self, is_loopback: bool) -> Option<String> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let base = self.base.get()?;
        if is_loopback || self.config.server.public_url.is_some() {
            return Some(base.clone());
        }
        if !WARNED.swap(true, Ordering::SeqCst) {
            tracing::warn!("without PES_PUBLIC_URL other agents cannot report here; they are asked how tasks stand");
        }
        None
    }
}

/// The fault of what a stop prevents.
pub(crate) fn stopping() -> Fault {
    Fault::new(Code::Draining, "The server is stopping; ask again in a moment.").retry_after(2_000)
}
