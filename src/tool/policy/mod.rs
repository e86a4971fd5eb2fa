//! Decides which calls run without asking, which need a person's approval and which never run, and names the rule that
//! decided.
//!
//! Rules come from the server (`[policy]` and `agent.tool_policy` in its configuration) and from the tenant (`PUT
//! /policy`). Of the rules that match a call the most specific decides: one that names the thread before one that does
//! not, then the one that names the tool more exactly, then the one with more conditions, then the tenant's before the
//! server's, then the stricter. But a denial by the server's own rules is final.
//!
//! A condition on arguments is answered with yes, no or in doubt (`condition.rs`); doubt and missing values count
//! against the call. The cost of one judgement is bounded (`steps.rs`).
//!
//! A thread's `toolPolicy` can only make a rule's decision stricter. Where no rule matches a call, it overrides the
//! default of the tool's class (only callers who may approve can write an entry that could be looser:
//! `service/threads/tool_policy.rs`); in production it can turn a denial at most into a question.

mod argument;
mod compiled;
mod condition;
mod email;
mod foresee;
mod glob;
mod host;
mod normal;
mod number;
mod steps;
mod tenants;

use std::collections::BTreeMap;
use std::sync::Arc;

use steps::StepBudget;

use crate::config::Environment;
use crate::domain::policy::{RuleScope, Ruling};
use crate::domain::settings::PolicyAction;
use crate::domain::tool::{Proposal, ToolClass};

use compiled::Rule;
pub use compiled::{CompiledRules, check};
pub use foresee::PolicyForecast;
pub use glob::matches;
pub(crate) use tenants::check_server;
pub use tenants::{POLICY_ID, Policies, server_rules};
#[cfg(feature = "internals")]
pub use {
    argument::MAX_EXAMINED,
    compiled::{MAX_CONDITIONS, MAX_RULES, MOST_VALUES},
};

/// A snapshot of one tenant's policy.
#[derive(Debug)]
pub struct Policy {
    pub environment: Environment,
    pub server: Arc<CompiledRules>,
    pub tenant: Option<Arc<CompiledRules>>,
}

impl Policy {
    /// Decides about a call; `default` applies where no rule does.
    pub fn decide(&self, call: &Proposal<'_>, default: Ruling) -> Ruling {
        let thread = of_thread(&call.settings.tool_policy, call.tool);
        let steps = StepBudget::new();
        let server = self.server.most_specific(call, &steps);
        let tenant = self.tenant.as_ref().and_then(|rules| rules.most_specific(call, &steps));
        self.apply(decisive(server, tenant), thread, default)
    }

    /// Decides about a call for which this rule of server or tenant is decisive, if there is one.
    fn apply(&self, rule: Option<&Rule>, thread: Option<Ruling>, default: Ruling) -> Ruling {
        match (rule.map(|rule| &rule.ruling), thread) {
            (Some(rule), Some(thread)) if thread.action > rule.action => thread,
            (Some(rule), _) => rule.clone(),
            (None, thread) => self.thread_over_default(default, thread),
        }
    }

    /// The default of a tool's class. Outside production every class but `irreversible` runs; in production only `read`
    /// and the server's own tools run, everything else needs a rule.
    pub fn class_default(&self, class: ToolClass, is_own: bool) -> Ruling {
        let (action, words) = match (self.environment, class) {
            (_, ToolClass::Read) => (PolicyAction::Auto, "read"),
            (Environment::Development, ToolClass::Write) => (PolicyAction::Auto, "write"),
            (Environment::Development, ToolClass::External) => (PolicyAction::Auto, "external"),
            (Environment::Development, ToolClass::Irreversible) => (PolicyAction::Ask, "irreversible"),
            (Environment::Production, ToolClass::Write) => (PolicyAction::Deny, "write"),
            (Environment::Production, ToolClass::External) => (PolicyAction::Deny, "external"),
            (Environment::Production, ToolClass::Irreversible) => (PolicyAction::Deny, "irreversible"),
        };
        let action = if is_own { PolicyAction::Auto } else { action };
        Ruling::new(action, format!("default for {words} tools = {}", action.as_str()), RuleScope::Default)
    }

    fn thread_over_default(&self, default: Ruling, thread: Option<Ruling>) -> Ruling {
        let Some(thread) = thread else { return default };
        let is_loosened = self.environment == Environment::Production
            && default.action == PolicyAction::Deny
            && thread.action == PolicyAction::Auto;
        if is_loosened { default } else { thread }
    }
}

/// Which of the server's and the tenant's rules is decisive.
fn decisive<'a>(server: Option<&'a Rule>, tenant: Option<&'a Rule>) -> Option<&'a Rule> {
    match (server, tenant) {
        (Some(server), _) if server.ruling.action == PolicyAction::Deny => Some(server),
        (Some(server), Some(tenant)) if server.rank > tenant.rank => Some(server),
        (server, tenant) => tenant.or(server),
    }
}

/// The entry of a `toolPolicy` that applies to a tool: the exact name, else the glob with the most literal characters,
/// else none. Of two equally specific ones the stricter decides.
fn of_thread(policy: &BTreeMap<String, PolicyAction>, tool: &str) -> Option<Ruling> {
    policy
        .iter()
        .filter(|(pattern, _)| matches(pattern, tool))
        .max_by_key(|(pattern, action)| (glob::specificity(pattern), **action))
        .map(|(pattern, action)| Ruling::new(*action, entry_name(pattern, *action), RuleScope::Thread))
}

/// The name of a `toolPolicy` entry in decisions.
pub(super) fn entry_name(pattern: &str, action: PolicyAction) -> String {
    format!("toolPolicy {pattern} = {}", action.as_str())
}
