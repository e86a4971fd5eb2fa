//! Where tools come from: the server's own, and sources that differ by tenant and change while the server runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

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
    kept: Mutex<HashMap<TenantPk, Place>>,
}

/// Where a tenant's toolset stands. Making one may take long (tools are asked for, schemas compiled). It is made once,
/// however many ask for it: those of this tenant wait for that, each on its thread, and nobody else does.
type Place = Arc<Mutex<Option<CachedToolset>>>;

/// A toolset, and the generation of each source that it was made of.
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

    /// What a tenant's agents may call, as of now.
    pub fn toolset(&self, tenant: TenantPk) -> Arc<Toolset> {
        let is_bare = |policy: &Arc<Policy>| Arc::ptr_eq(policy, self.own.policy());
        if self.sources.is_empty() && is_bare(&self.policies.of(tenant)) {
            return self.own.clone();
        }
        let place = self.place(tenant);
        let mut kept = place.lock();
        // Asked only now: it may have changed while this waited for its turn.
        let policy = self.policies.of(tenant);
        let is_current = |kept: &&CachedToolset| {
            Arc::ptr_eq(&policy, kept.toolset.policy())
                && self.sources.iter().zip(&kept.generations).all(|(source, then)| source.generation(tenant) == *then)
        };
        if let Some(current) = kept.as_ref().filter(is_current) {
            return current.toolset.clone();
        }
        // Generations first: a change in between makes the next call look again.
        let generations = self.sources.iter().map(|source| source.generation(tenant)).collect();
        let found: Vec<_> = self.sources.iter().map(|source| source.tools(tenant)).collect();
        let toolset = if found.iter().any(|tools| !tools.is_empty()) {
            Arc::new(self.own.joined(&found, kept.as_ref().map(|last| &*last.toolset)).under(policy))
        } else if is_bare(&policy) {
            self.own.clone()
        } else {
            Arc::new(self.own.under(policy))
        };
        *kept = Some(CachedToolset { generations, toolset: toolset.clone() });
        toolset
    }

    fn place(&self, tenant: TenantPk) -> Place {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT && !kept.contains_key(&tenant) {
            kept.clear();
        }
        kept.entry(tenant).or_default().clone()
    }
}
