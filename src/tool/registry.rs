//! Where tools come from: the server's own, and sources that differ by tenant and change while the server runs.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{JoinError, spawn_blocking};

use super::policy::{Policies, Policy};
use super::toolset::{Entry, Toolset};
use super::{Tool, ToolSource};
use crate::config::Environment;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

/// How many tenants' toolsets are kept ready; one more, and all are made again as they are asked for.
const KEPT: usize = 4_096;

/// All tools of this server.
pub struct Registry {
    own: Arc<Toolset>,
    policies: Arc<Policies>,
    sources: Vec<Arc<dyn ToolSource>>,
    kept: Mutex<HashMap<TenantPk, Arc<Place>>>,
}

/// Where a tenant's toolset stands. Making one may take long: tools are asked for, schemas compiled. It is made once,
/// however many of this tenant ask for it, and nobody else waits for it.
#[derive(Default)]
struct Place {
    /// The last one made. Locked for an instant only.
    last: Mutex<Option<CachedToolset>>,
    /// Locked while one is made.
    making: Mutex<()>,
    /// Who waits to have one made waits here: in a task, not on a thread.
    turn: tokio::sync::Mutex<()>,
}

/// A toolset, and the generation of each source that it was made of.
#[derive(Clone)]
struct CachedToolset {
    generations: Vec<u64>,
    toolset: Arc<Toolset>,
}

impl Registry {
    /// With the server's own tools: every tenant has them, and no other tool takes the name of one. Refuses two of one
    /// name, a name that no provider takes, and a schema that cannot be compiled.
    pub fn new(tools: Vec<Arc<dyn Tool>>, environment: Environment) -> Result<Self, Fault> {
        let mut own = BTreeMap::new();
        for tool in tools {
            let entry = Entry::new(tool)?;
            let name = entry.name().to_owned();
            if own.contains_key(&name) {
                return Err(Fault::new(Code::Invalid, format!("The tool `{name}` is registered twice.")));
            }
            own.insert(name, Arc::new(entry));
        }
        let policies = Arc::new(Policies::none(environment));
        let own = Arc::new(Toolset::new(own, policies.bare()));
        Ok(Self { own, policies, sources: Vec::new(), kept: Mutex::default() })
    }

    /// Judges calls by these.
    pub fn with_policies(mut self, policies: Policies) -> Self {
        self.own = Arc::new(self.own.under(policies.bare()));
        self.policies = Arc::new(policies);
        self
    }

    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Asks these, too; of two tools with one name the earlier source's is offered.
    pub fn with_sources(mut self, sources: Vec<Arc<dyn ToolSource>>) -> Self {
        self.sources.extend(sources);
        self
    }

    /// What a tenant's agents may call, as of now. One that is not ready is made on this thread: whoever can wait in a task
    /// awaits [`prepare`](Self::prepare) first.
    pub fn toolset(&self, tenant: TenantPk) -> Arc<Toolset> {
        if self.is_own_alone(tenant) {
            return self.own.clone();
        }
        let place = self.place(tenant);
        if let Some(current) = self.current(&place, tenant) {
            return current;
        }
        let _making = place.making.lock();
        // Another thread may have made it while this one waited for its turn.
        self.current(&place, tenant).unwrap_or_else(|| self.make(&place, tenant))
    }

    /// Makes the tenant's toolset, if it is not ready, off the threads that serve: until it is made, its tenant's tasks
    /// wait, and no thread does.
    pub async fn prepare(self: &Arc<Self>, tenant: TenantPk) {
        if self.is_own_alone(tenant) {
            return;
        }
        let place = self.place(tenant);
        if self.current(&place, tenant).is_some() {
            return;
        }
        let _turn = place.turn.lock().await;
        if self.current(&place, tenant).is_some() {
            return;
        }
        let registry = self.clone();
        let made = spawn_blocking(move || registry.toolset(tenant)).await;
        // Not made as the runtime ends: whoever needs it makes it.
        if let Err(Ok(panic)) = made.map_err(JoinError::try_into_panic) {
            resume_unwind(panic);
        }
    }

    /// Whether the tenant has the server's own tools, without rules: nothing is to be made.
    fn is_own_alone(&self, tenant: TenantPk) -> bool {
        self.sources.is_empty() && self.is_bare(&self.policies.of(tenant))
    }

    fn is_bare(&self, policy: &Arc<Policy>) -> bool {
        Arc::ptr_eq(policy, self.own.policy())
    }

    /// The last one, if nothing has changed since.
    fn current(&self, place: &Place, tenant: TenantPk) -> Option<Arc<Toolset>> {
        let policy = self.policies.of(tenant);
        let last = place.last.lock();
        let last = last.as_ref().filter(|last| Arc::ptr_eq(&policy, last.toolset.policy()))?;
        let mut generations = self.sources.iter().zip(&last.generations);
        generations.all(|(source, then)| source.generation(tenant) == *then).then(|| last.toolset.clone())
    }

    fn make(&self, place: &Place, tenant: TenantPk) -> Arc<Toolset> {
        let policy = self.policies.of(tenant);
        let last = place.last.lock().clone();
        // Generations first: a change in between makes the next call look again.
        let generations = self.sources.iter().map(|source| source.generation(tenant)).collect();
        let found: Vec<_> = self.sources.iter().map(|source| source.tools(tenant)).collect();
        let toolset = if found.iter().any(|tools| !tools.is_empty()) {
            Arc::new(self.own.joined(&found, last.as_ref().map(|last| &*last.toolset)).under(policy))
        } else if self.is_bare(&policy) {
            self.own.clone()
        } else {
            Arc::new(self.own.under(policy))
        };
        *place.last.lock() = Some(CachedToolset { generations, toolset: toolset.clone() });
        toolset
    }

    fn place(&self, tenant: TenantPk) -> Arc<Place> {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT && !kept.contains_key(&tenant) {
            kept.clear();
        }
        kept.entry(tenant).or_default().clone()
    }
}
