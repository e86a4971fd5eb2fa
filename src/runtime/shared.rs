//! The state that all parts of the runtime share: the store, the clients it calls with, the configuration, the actors.
//!
//! The methods of [`Shared`] that belong to one part stand beside it: `actors.rs` (commands to a thread), `wakeups.rs` and
//! `sweep.rs` (due threads), `replica_watch.rs` (commits of other processes), `publish.rs`, `inline.rs` and `pushes.rs`
//! (what a commit publishes), `effects.rs` and `admission.rs` (model calls), `tenant_runs.rs` (runs that wait for others to end), `listening.rs` and `erasure.rs` (other
//! agents, the end of a thread), `tally.rs` (metrics), `start.rs` (the outbox worker).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actors::Actors;
use super::clock::Clock;
use super::crash_watch::CrashWatch;
use super::followed::MadeSpans;
use super::lease::LeaseKeeper;
use super::listening::Listening;
use super::model_facts::ModelFacts;
use super::model_meters::ModelMeters;
use super::probation::Probation;
use super::sweep::Alarm;
use super::tenant_runs::TenantRuns;
use super::waiters::Waiters;
use super::wakeups::WakeBackoff;
use crate::a2a::directory::Directory;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{Mint, TenantPk, ThreadPk};
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
    /// The same store, for what people read: lists, logs, whole threads. A row by its key is read by either.
    pub(super) reads: Arc<dyn Store>,
    pub(super) sealer: Arc<Sealer>,
    /// What tenants configured.
    pub(super) documents: Arc<DocumentCache>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) traces: Option<Arc<Traces>>,
    pub(super) made_spans: MadeSpans,
    /// Those that work can be given to.
    pub(super) agents: Arc<Directory>,
    /// What stands before every path of this server, once it is listened for.
    pub(super) base: OnceLock<String>,
    /// The same for people; not set where that is no address which they can open.
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
    pub(super) model_facts: ModelFacts,
    pub(super) model_meters: ModelMeters,
    pub(super) gates: Gates,
    pub(super) tenant_runs: TenantRuns,
    pub(super) lease_keeper: LeaseKeeper,
    pub(super) actors: Actors,
    pub(super) waiters: Waiters,
    pub(super) listening: Listening,
    pub(super) alarm: Alarm,
    pub(super) wake_backoff: WakeBackoff,
    pub(super) probation: Probation,
    pub(super) crash_watch: CrashWatch,
    /// Nothing of a restored database goes on yet.
    pub(super) is_restoring: AtomicBool,
    /// A thread was deleted, and what it left can be removed.
    pub(super) erased: Notify,
    /// Nothing new starts any more; what runs is recorded.
    pub(super) draining: CancellationToken,
    /// What still runs is dropped.
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

    /// Whether this tenant's calls of that provider carry a key of its own.
    pub(super) fn has_own_key(&self, tenant: TenantPk, provider: &str) -> bool {
        let keys = self.keyed.get(&tenant).and_then(|name| self.config.models.tenant_keys.get(name));
        keys.is_some_and(|keys| keys.contains_key(provider))
    }

    /// A key that no thread ever had: milliseconds, then a count that began at a random place.
    pub(super) fn new_pk(&self) -> ThreadPk {
        const COUNT_BITS: u32 = 22;
        let count = self.pks.fetch_add(1, Ordering::Relaxed) & ((1 << COUNT_BITS) - 1);
        ThreadPk((self.clock.now() << COUNT_BITS) | count as i64)
    }

    /// What decisions about a thread look at: its tenant's tools, what is known of models, and the limits.
    pub(super) fn world<'a>(&'a self, tools: &'a Toolset) -> World<'a> {
        World {
            tools,
            models: &self.model_facts,
            limits: &self.limits,
            allowance: &Allowance::Uncapped,
            begin: RunAdmission::Now,
        }
    }

    pub(super) fn core(&self, name: &str) -> Result<&Arc<dyn Core>, Fault> {
        find_core(&self.cores, name)
    }

    /// Refuses what would start or change something once the server is stopping.
    pub(super) fn accepting(&self) -> Result<(), Fault> {
        if self.draining.is_cancelled() {
            let detail = "The server is stopping; ask again in a moment.";
            return Err(Fault::new(Code::Draining, detail).retry_after(2_000));
        }
        Ok(())
    }

    /// Where people find things in the page; `None`: nobody knows under which address.
    pub(super) fn console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls.get()
    }

    /// The same for what other agents are told; `None`: no public address is configured.
    pub(super) fn public_console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls().filter(|urls| urls.is_public())
    }

    /// A run as clients see it, with its place in the page.
    pub(super) fn resource(&self, run: &Run, answer: Option<ConversationMessage>) -> RunResource {
        let url = self.console_urls().map(|urls| urls.run(&run.thread_id, &run.run_id));
        RunResource { url, ..run.resource(answer) }
    }

    /// What stands before the path of a call back; `None`: the agent could not reach it, and is asked instead.
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
