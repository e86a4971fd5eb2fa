//! Forecasts what the policy will decide about a tool's calls before their arguments are known.

use super::compiled::Rule;
use super::{Policy, decisive, of_thread};
use crate::domain::forecast::ConditionalRuling;
use crate::domain::policy::Ruling;
use crate::domain::settings::PolicyAction;
use crate::domain::tool::Proposal;

/// How many rules with conditions are listed per tool.
const MAX_LISTED: usize = 16;

/// What will decide about a tool's calls.
pub struct PolicyForecast {
    /// The decision if none of the conditions holds.
    pub ruling: Ruling,
    /// Rules that ask come first, then those that deny.
    pub conditions: Vec<ConditionalRuling>,
    /// There are more rules than are listed.
    pub has_more: bool,
}

impl Policy {
    /// Ignores the call's arguments. `default` applies where no rule does. Visits each rule about the tool once.
    pub fn foresee(&self, call: &Proposal<'_>, default: Ruling) -> PolicyForecast {
        let (of_server, server) = self.server.candidates(call);
        let tenants = self.tenant.as_deref();
        let (of_tenant, tenant) = tenants.map(|rules| rules.candidates(call)).unwrap_or_default();
        let thread = of_thread(&call.settings.tool_policy, call.tool);
        // A rule that the other scope's unconditional rule always overrides is not listed.
        let of_server = of_server.into_iter().filter(|rule| is_same(decisive(Some(rule), tenant), rule));
        let of_tenant = of_tenant.into_iter().filter(|rule| is_same(decisive(server, Some(rule)), rule));
        let mut listed = ConditionalRules::default();
        let least = thread.as_ref().map_or(PolicyAction::Auto, |thread| thread.action);
        of_server.for_each(|rule| listed.add(rule, least));
        of_tenant.for_each(|rule| listed.add(rule, least));
        let (rules, has_more) = listed.first();
        let conditions = rules.into_iter().map(|rule| ConditionalRuling {
            when: rule.ruling.when.clone(),
            // The conditions are listed separately.
            policy: Ruling { when: Vec::new(), ..self.apply(Some(rule), thread.clone(), default.clone()) },
        });
        let conditions = conditions.collect();
        PolicyForecast { ruling: self.apply(decisive(server, tenant), thread, default), conditions, has_more }
    }
}

fn is_same(decisive: Option<&Rule>, rule: &Rule) -> bool {
    decisive.is_some_and(|decisive| std::ptr::eq(decisive, rule))
}

/// Rules grouped by their decision, each group up to the number that may be listed.
#[derive(Default)]
struct ConditionalRules<'a> {
    asks: Vec<&'a Rule>,
    denies: Vec<&'a Rule>,
    allows: Vec<&'a Rule>,
    count: usize,
}

impl<'a> ConditionalRules<'a> {
    /// `least` is the decision that the thread's own policy makes at least.
    fn add(&mut self, rule: &'a Rule, least: PolicyAction) {
        self.count += 1;
        let kind = match least.max(rule.ruling.action) {
            PolicyAction::Ask => &mut self.asks,
            PolicyAction::Deny => &mut self.denies,
            PolicyAction::Auto => &mut self.allows,
        };
        if kind.len() < MAX_LISTED {
            kind.push(rule);
        }
    }

    /// The rules to list, and whether there are more.
    fn first(self) -> (Vec<&'a Rule>, bool) {
        let mut rules = [self.asks, self.denies, self.allows].concat();
        rules.truncate(MAX_LISTED);
        (rules, self.count > MAX_LISTED)
    }
}
