//! The state that all parts of the runtime share: the store, the clients it calls with, the configuration, the actors.
//!
//! The methods that belong to one part are in its file.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::Notify;

use super::actors::Actors;
use super::clock::Clock;
use super::crash_watch::CrashWatch;
use super::lease::LeaseKeeper;
use super::listening::ListenedTasks;
use super::long_queries::LongQueries;
use super::models::ModelAccess;
use super::outgoing::TraceExporter;
use super::own_address::OwnAddress;
use super::stop::StopPhases;
use super::sweep::Sweeper;
use super::tenant_runs::TenantRuns;
use super::waiters::Waiters;
use super::went_back::WentBack;
use crate::a2a::directory::Directory;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::Mint;
use crate::domain::thread::Limits;
use crate::engine::{Allowance, Core, RunAdmission, World};
use crate::live::Hub;
use crate::outbox::Outbox;
use crate::store::documents::{DocumentCache, Sealer};
use crate::store::{PeopleReads, Store};
use crate::tool::{Registry, Toolset};

pub(super) struct Shared {
    // What the process was started with.
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<dyn Store>,
    pub(super) reads: PeopleReads,
    /// What tenants configured.
    pub(super) documents: Arc<DocumentCache>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) hub: Arc<Hub>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) tools: Arc<Registry>,
    /// The agents that tasks can be delegated to.
    pub(super) agents: Arc<Directory>,
    pub(super) cores: Vec<Arc<dyn Core>>,
    pub(super) limits: Limits,
    pub(super) models: ModelAccess,
    pub(super) trace_exporter: TraceExporter,
    pub(super) own_address: OwnAddress,

    // What is under way in it.
    pub(super) lease_keeper: LeaseKeeper,
    pub(super) actors: Actors,
    pub(super) sweeper: Sweeper,
    pub(super) crash_watch: CrashWatch,
    pub(super) tenant_runs: TenantRuns,
    pub(super) long_queries: LongQueries,
    pub(super) waiters: Waiters,
    pub(super) listening: ListenedTasks,
    pub(super) went_back: WentBack,
    /// The runs of a restored database are being held back.
    pub(super) is_restoring: AtomicBool,
    /// Notified when a thread was deleted, so that its remains can be removed.
    pub(super) erased: Notify,
    /// Makes the primary keys of new threads unique.
    pub(super) pk_counter: AtomicU64,
    pub(super) stop: StopPhases,
}

/// The agent core of this name; the fault lists those that there are.
pub(crate) fn find_core<'c>(cores: &'c [Arc<dyn Core>], name: &str) -> Result<&'c Arc<dyn Core>, Fault> {
    cores.iter().find(|core| core.name() == name).ok_or_else(|| {
        let known: Vec<&str> = cores.iter().map(|core| core.name()).collect();
        Fault::new(Code::Invalid, format!("There is no agent core `{name}`; use one of: {}.", known.join(", ")))
    })
}

/// Of two cores with one name the second would never be used.
pub(super) fn check_core_names(cores: &[Arc<dyn Core>]) -> Result<(), Fault> {
    let mut names = HashSet::new();
    match cores.iter().find(|core| !names.insert(core.name())) {
        Some(second) => {
            Err(Fault::new(Code::Invalid, format!("The agent core `{}` is registered twice.", second.name())))
        }
        None => Ok(()),
    }
}

impl Shared {
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(super) fn mint(&self) -> Mint {
        Mint::new(self.clock.now(), self.clock.seed())
    }

    /// The input of decisions besides the thread: its tenant's tools, facts about models, and the limits.
    pub(super) fn world<'a>(&'a self, tools: &'a Toolset) -> World<'a> {
        World {
            tools,
            models: &self.models,
            limits: &self.limits,
            allowance: &Allowance::Uncapped,
            admission: RunAdmission::Now,
        }
    }

    pub(super) fn core(&self, name: &str) -> Result<&Arc<dyn Core>, Fault> {
        find_core(&self.cores, name)
    }
}
