//! Which calls run by themselves, which need a person, which never run: one policy decides, and says by which rule.
//!
//! Rules are the server's (`[policy]` and `agent.tool_policy` in its configuration) and the tenant's (`PUT /policy`). Of
//! those that are about a call the most specific decides: one that names the thread before one that does not, then the
//! one that names the tool more exactly, then the one with more conditions, then the tenant's before the server's, then
//! the stricter. But where the server's own rules deny, that is the end of it.
//!
//! What rules ask of arguments is answered with yes, no or in doubt (`condition.rs`); doubt and what is missing count
//! against the call. What one judgement costs is bounded (`steps.rs`).
//!
//! A thread's `toolPolicy` makes a rule's decision only stricter. Where no rule is about a call it stands above the default
//! of the tool's class (only somebody who may approve writes what could be looser: `runtime/tool_policy.rs`); in
//! production it turns a denial into a question at most.

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

use steps::Steps;

use crate::config::Environment;
use crate::domain::policy::{RuleScope, Ruling};
use crate::domain::settings::PolicyAction;
use crate::domain::tool::{Proposal, ToolClass};

pub use argument::MOST_EXAMINED;
use compiled::Rule;
pub use compiled::{Compiled, MOST_CONDITIONS, MOST_RULES, MOST_VALUES, check};
pub use foresee::Foreseen;
pub use glob::matches;
pub use steps::MOST_STEPS;
pub(crate) use tenants::check_server;
pub use tenants::{POLICY_ID, Policies, server_rules};

/// The policy of one tenant, as of some moment.
#[derive(Debug)]
pub struct Policy {
    pub environment: Environment,
    pub server: Arc<Compiled>,
    pub tenant: Option<Arc<Compiled>>,
}

impl Policy {
    /// What becomes of a call; `default` is what applies where no rule does.
    pub fn decide(&self, call: &Proposal<'_>, default: Ruling) -> Ruling {
        let thread = of_thread(&call.settings.tool_policy, call.tool);
        let steps = Steps::new();
        let server = self.server.first(call, &steps);
        let tenant = self.tenant.as_ref().and_then(|rules| rules.first(call, &steps));
        self.settled(decisive(server, tenant), thread, default)
    }

    /// What becomes of a call about which this rule of server or tenant decides, if any does.
    fn settled(&self, rule: Option<&Rule>, thread: Option<Ruling>, default: Ruling) -> Ruling {
        match (rule.map(|rule| &rule.ruling), thread) {
            (Some(rule), Some(thread)) if strictness(thread.action) > strictness(rule.action) => thread,
            (Some(rule), _) => rule.clone(),
            (None, thread) => self.above(default, thread),
        }
    }

    /// The default of a tool's class: outside production every class but `irreversible` runs; in production only reading
    /// and the server's own tools do, everything else needs a rule.
    pub fn of_class(&self, class: ToolClass, is_own: bool) -> Ruling {
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
        Ruling::new(action, format!("default for {words} tools = {}", name(action)), RuleScope::Default)
    }

    fn above(&self, default: Ruling, thread: Option<Ruling>) -> Ruling {
        let Some(thread) = thread else { return default };
        let is_loosened = self.environment == Environment::Production
            && default.action == PolicyAction::Deny
            && thread.action == PolicyAction::Auto;
        if is_loosened { default } else { thread }
    }
}

/// Which of the server's and the tenant's rules decides.
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
        .max_by_key(|(pattern, action)| (glob::specificity(pattern), strictness(**action)))
        .map(|(pattern, action)| Ruling::new(*action, words(pattern, *action), RuleScope::Thread))
}

/// How a `toolPolicy` entry is named.
pub(super) fn words(pattern: &str, action: PolicyAction) -> String {
    format!("toolPolicy {pattern} = {}", name(action))
}

pub(crate) fn strictness(action: PolicyAction) -> u8 {
    match action {
        PolicyAction::Auto => 0,
        PolicyAction::Ask => 1,
        PolicyAction::Deny => 2,
    }
}

pub(crate) fn name(action: PolicyAction) -> &'static str {
    match action {
        PolicyAction::Auto => "auto",
        PolicyAction::Ask => "ask",
        PolicyAction::Deny => "deny",
    }
}
