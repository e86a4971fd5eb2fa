//! The policies of all tenants: compiled when they change, not when they are asked.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Compiled, Policy, check};
use crate::config::{self, Environment};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::domain::policy::{PolicyRule, PolicyRules, RuleScope};
use crate::domain::settings::PolicyAction;
use crate::store::documents::{Document, DocumentCache, DocumentKind};

/// The id of the one policy document that a tenant has.
pub const POLICY_ID: &str = "rules";

/// How many tenants' policies are kept compiled; one more, and all are compiled again as they are asked for.
const KEPT: usize = 4_096;

pub struct Policies {
    /// What applies to a tenant without rules of its own.
    bare: Arc<Policy>,
    documents: Option<Arc<DocumentCache>>,
    kept: Mutex<HashMap<TenantPk, (i64, Arc<Policy>)>>,
}

/// Refuses rules of the server's settings that mean nothing.
pub(crate) fn check_server(config: &config::Config) -> Result<(), Fault> {
    check(&config.policy.rules)
        .map_err(|fault| Fault { detail: format!("[[policy.rules]]: {}", fault.detail), ..fault })
}

impl Policies {
    /// The defaults of the tools' classes, and nothing else.
    pub fn none(environment: Environment) -> Self {
        Self::with(Compiled::default(), environment, None)
    }

    /// The server's rules as configured, and each tenant's as it wrote them.
    pub fn of_server(config: &config::Config, documents: Arc<DocumentCache>) -> Result<Self, Fault> {
        check_server(config)?;
        Ok(Self::with(Compiled::new(&server_rules(config), RuleScope::Server), config.env, Some(documents)))
    }

    fn with(server: Compiled, environment: Environment, documents: Option<Arc<DocumentCache>>) -> Self {
        let bare = Policy { environment, server: Arc::new(server), tenant: None };
        Self { bare: Arc::new(bare), documents, kept: Mutex::default() }
    }

    pub(crate) fn bare(&self) -> Arc<Policy> {
        self.bare.clone()
    }

    /// A tenant's policy as of now; the same `Arc` until it changes.
    pub fn of(&self, tenant: TenantPk) -> Arc<Policy> {
        let find = |documents: &Arc<DocumentCache>| documents.get(tenant, DocumentKind::Policy, POLICY_ID);
        let Some(document) = self.documents.as_ref().and_then(find) else { return self.bare.clone() };
        let mut kept = self.kept.lock();
        if let Some((version, policy)) = kept.get(&tenant)
            && *version == document.version
        {
            return policy.clone();
        }
        if kept.len() >= KEPT {
            kept.clear();
        }
        let compiled = Compiled::new(&rules(&document), RuleScope::Tenant).of_version(document.version);
        let policy = Arc::new(self.with_rules(compiled));
        kept.insert(tenant, (document.version, policy.clone()));
        policy
    }

    /// The server's rules with these instead of a tenant's own.
    pub fn trying(&self, rules: &[PolicyRule]) -> Policy {
        self.with_rules(Compiled::new(rules, RuleScope::Tenant))
    }

    fn with_rules(&self, rules: Compiled) -> Policy {
        let Policy { environment, server, tenant: _ } = &*self.bare;
        Policy { environment: *environment, server: server.clone(), tenant: Some(Arc::new(rules)) }
    }
}

/// The rules of the server: those under `[policy]`, and what `agent.tool_policy` says.
pub fn server_rules(config: &config::Config) -> Vec<PolicyRule> {
    let named = config.agent.tool_policy.iter().map(|(tool, action)| PolicyRule::of_tool(tool, *action));
    config.policy.rules.iter().cloned().chain(named).collect()
}

/// What a document says. One that cannot be read denies everything: nobody knows what it meant to forbid.
fn rules(document: &Document) -> Vec<PolicyRule> {
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
