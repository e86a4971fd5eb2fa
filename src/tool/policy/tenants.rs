//! The policies of all tenants, compiled when their documents change and cached.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{CompiledRules, Policy, check};
use crate::config::{self, Environment};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::domain::policy::{PolicyRule, PolicyRules, RuleScope};
use crate::domain::settings::PolicyAction;
use crate::store::documents::{Document, DocumentCache, DocumentKind};

/// The id of a tenant's only policy document.
pub const POLICY_ID: &str = "rules";

/// How many tenants' compiled policies are cached. Beyond that the cache is emptied and refilled on demand.
const MAX_CACHED: usize = 4_096;

pub struct Policies {
    /// The policy of tenants without rules of their own.
    bare: Arc<Policy>,
    documents: Option<Arc<DocumentCache>>,
    cached: Mutex<HashMap<TenantPk, (i64, Arc<Policy>)>>,
}

/// Rejects unusable rules in the server's settings.
pub(crate) fn check_server(config: &config::Config) -> Result<(), Fault> {
    check(&config.policy.rules)
        .map_err(|fault| Fault { detail: format!("[[policy.rules]]: {}", fault.detail), ..fault })
}

impl Policies {
    /// Only the defaults of the tools' classes.
    pub fn none(environment: Environment) -> Self {
        Self::with(CompiledRules::default(), environment, None)
    }

    /// The server's rules from the configuration, and each tenant's from its document.
    pub fn of_server(config: &config::Config, documents: Arc<DocumentCache>) -> Result<Self, Fault> {
        check_server(config)?;
        Ok(Self::with(CompiledRules::new(&server_rules(config), RuleScope::Server), config.env, Some(documents)))
    }

    fn with(server: CompiledRules, environment: Environment, documents: Option<Arc<DocumentCache>>) -> Self {
        let bare = Policy { environment, server: Arc::new(server), tenant: None };
        Self { bare: Arc::new(bare), documents, cached: Mutex::default() }
    }

    pub(crate) fn bare(&self) -> Arc<Policy> {
        self.bare.clone()
    }

    /// A tenant's current policy; the same `Arc` until it changes.
    pub fn of(&self, tenant: TenantPk) -> Arc<Policy> {
        let find = |documents: &Arc<DocumentCache>| documents.get(tenant, DocumentKind::Policy, POLICY_ID);
        let Some(document) = self.documents.as_ref().and_then(find) else { return self.bare.clone() };
        let version = document.version;
        if let Some((known, policy)) = self.cached.lock().get(&tenant)
            && *known == version
        {
            return policy.clone();
        }
        // Without the lock, which every decision of every tenant takes: this may take some tens of milliseconds.
        let compiled = CompiledRules::new(&rules_of(&document), RuleScope::Tenant).with_version(version);
        let policy = Arc::new(self.with_rules(compiled));
        let mut cached = self.cached.lock();
        match cached.get(&tenant) {
            // Another task was faster: all use the same `Arc`.
            Some((known, policy)) if *known == version => return policy.clone(),
            Some((known, _)) if *known > version => return policy,
            Some(_) | None => {}
        }
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(tenant, (version, policy.clone()));
        policy
    }

    /// The server's rules with `rules` in place of a tenant's own.
    pub fn with_tenant_rules(&self, rules: &[PolicyRule]) -> Policy {
        self.with_rules(CompiledRules::new(rules, RuleScope::Tenant))
    }

    fn with_rules(&self, rules: CompiledRules) -> Policy {
        let Policy { environment, server, tenant: _ } = &*self.bare;
        Policy { environment: *environment, server: server.clone(), tenant: Some(Arc::new(rules)) }
    }
}

/// The server's rules: those under `[policy]`, and the entries of `agent.tool_policy`.
pub fn server_rules(config: &config::Config) -> Vec<PolicyRule> {
    let named = config.agent.tool_policy.iter().map(|(tool, action)| PolicyRule::of_tool(tool, *action));
    config.policy.rules.iter().cloned().chain(named).collect()
}

/// The rules of a document. An unreadable document denies everything, because what it was meant to forbid is unknown.
fn rules_of(document: &Document) -> Vec<PolicyRule> {
    let read = document.legible::<PolicyRules>().map_err(|why| why.to_string());
    match read.and_then(|read| check(&read.rules).map(|()| read.rules).map_err(|fault| fault.detail)) {
        Ok(rules) => rules,
        Err(why) => {
            tracing::error!(tenant = document.tenant.0, why, "a policy cannot be read; every call is denied");
            let rule = PolicyRule::of_tool("*", PolicyAction::Deny);
            vec![PolicyRule { id: Some("unreadable policy".to_owned()), ..rule }]
        }
    }
}
