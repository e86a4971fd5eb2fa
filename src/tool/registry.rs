//! All tools: the server's own, and sources that differ by tenant and change while the server runs.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::entry::ToolEntry;
use super::policy::{Policies, Policy};
use super::toolset::Toolset;
use super::{Tool, ToolSource};
use crate::config::Environment;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

/// How many tenants' toolsets are cached. Beyond that the cache is emptied and refilled on demand.
const MAX_CACHED_TENANTS: usize = 4_096;

/// All tools of this server.
pub struct Registry {
    own: Arc<Toolset>,
    policies: Arc<Policies>,
    sources: Vec<Arc<dyn ToolSource>>,
    cells: Mutex<HashMap<TenantPk, Arc<ToolsetCell>>>,
}

/// The cached toolset of one tenant. Building one may take long, because sources are queried and schemas compiled. It
/// is built once for all concurrent requests of the tenant, and other tenants do not wait for it.
#[derive(Default)]
struct ToolsetCell {
    /// The toolset that was built last. Locked only briefly.
    last: Mutex<Option<CachedToolset>>,
    /// Locked while a toolset is built. Tasks that need it wait on this lock, so that they do not block a thread.
    build_turn: Arc<tokio::sync::Mutex<()>>,
}

/// A toolset, and the generation of each source that it was built from.
#[derive(Clone)]
struct CachedToolset {
    generations: Vec<u64>,
    toolset: Arc<Toolset>,
}

impl Registry {
    /// With the server's own tools, which every tenant has and whose names no other tool may take. Rejects duplicate
    /// names, names that no provider accepts, and schemas that cannot be compiled.
    pub fn new(tools: Vec<Arc<dyn Tool>>, environment: Environment) -> Result<Self, Fault> {
        let mut own = BTreeMap::new();
        for tool in tools {
            let entry = ToolEntry::new(tool)?;
            let name = entry.name().to_owned();
            if own.contains_key(&name) {
                return Err(Fault::new(Code::Invalid, format!("The tool `{name}` is registered twice.")));
            }
            own.insert(name, Arc::new(entry));
        }
        let policies = Arc::new(Policies::none(environment));
        let own = Arc::new(Toolset::new(own, policies.bare()));
        Ok(Self { own, policies, sources: Vec::new(), cells: Mutex::default() })
    }

    /// Sets the policies that judge calls.
    pub fn with_policies(mut self, policies: Policies) -> Self {
        self.own = Arc::new(self.own.with_policy(policies.bare()));
        self.policies = Arc::new(policies);
        self
    }

    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Adds sources. Of two tools with the same name, the earlier source's is offered.
    pub fn with_sources(mut self, sources: Vec<Arc<dyn ToolSource>>) -> Self {
        self.sources.extend(sources);
        self
    }

    /// The tenant's current tools. A missing or outdated toolset is built on a blocking thread. Meanwhile the tenant's tasks
    /// wait, without blocking a thread.
    pub async fn toolset(self: &Arc<Self>, tenant: TenantPk) -> Arc<Toolset> {
        if self.has_only_own_tools(tenant) {
            return self.own.clone();
        }
        let cell = self.cell(tenant);
        if let Some(current) = self.current(&cell, tenant) {
            return current;
        }
        let turn = cell.build_turn.clone().lock_owned().await;
        // Another task may have had it built while this one waited for its turn.
        if let Some(current) = self.current(&cell, tenant) {
            return current;
        }
        let (registry, cell_to_fill) = (self.clone(), cell.clone());
        let built = spawn_blocking(move || {
            // The turn ends with the build, also if nobody waits for it any more.
            let _turn = turn;
            registry.build(&cell_to_fill, tenant)
        });
        match built.await.map_err(|error| error.try_into_panic()) {
            Ok(toolset) => toolset,
            Err(Ok(panic)) => resume_unwind(panic),
            // The build was cancelled because the runtime shuts down.
            Err(Err(_)) => self.build(&cell, tenant),
        }
    }

    /// Whether the tenant has only the server's own tools and no rules, so that nothing is to be built.
    fn has_only_own_tools(&self, tenant: TenantPk) -> bool {
        self.sources.is_empty() && self.is_bare(&self.policies.of(tenant))
    }

    fn is_bare(&self, policy: &Arc<Policy>) -> bool {
        Arc::ptr_eq(policy, self.own.policy())
    }

    /// The last toolset, if nothing has changed since.
    fn current(&self, cell: &ToolsetCell, tenant: TenantPk) -> Option<Arc<Toolset>> {
        let policy = self.policies.of(tenant);
        let last = cell.last.lock();
        let last = last.as_ref().filter(|last| Arc::ptr_eq(&policy, last.toolset.policy()))?;
        let mut generations = self.sources.iter().zip(&last.generations);
        generations.all(|(source, then)| source.generation(tenant) == *then).then(|| last.toolset.clone())
    }

    fn build(&self, cell: &ToolsetCell, tenant: TenantPk) -> Arc<Toolset> {
        let policy = self.policies.of(tenant);
        let last = cell.last.lock().clone();
        // Generations are read first: if a source changes in between, the next call rebuilds.
        let generations = self.sources.iter().map(|source| source.generation(tenant)).collect();
        let found: Vec<_> = self.sources.iter().map(|source| source.tools(tenant)).collect();
        let off: Vec<_> = self.sources.iter().flat_map(|source| source.off(tenant)).collect();
        let toolset = if !off.is_empty() || found.iter().any(|tools| !tools.is_empty()) {
            let last = last.as_ref().map(|last| &*last.toolset);
            Arc::new(self.own.with_sources(&found, off, last).with_policy(policy))
        } else if self.is_bare(&policy) {
            self.own.clone()
        } else {
            Arc::new(self.own.with_policy(policy))
        };
        *cell.last.lock() = Some(CachedToolset { generations, toolset: toolset.clone() });
        toolset
    }

    fn cell(&self, tenant: TenantPk) -> Arc<ToolsetCell> {
        let mut cells = self.cells.lock();
        if cells.len() >= MAX_CACHED_TENANTS && !cells.contains_key(&tenant) {
            cells.clear();
        }
        cells.entry(tenant).or_default().clone()
    }
}

#[cfg(test)]
mod tests;
