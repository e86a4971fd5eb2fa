//! Which rule of the policy decides: the order, which rules are final, and what a thread may change.

use std::sync::Arc;

use pes::config::{Config, Environment};
use pes::domain::ids::{TenantPk, ThreadId};
use pes::domain::policy::{PolicyRule, RuleScope, Ruling};
use pes::domain::settings::{PolicyAction, RunSettings};
use pes::domain::tool::{Proposal, ToolClass};
use pes::store::documents::{Change, DocumentCache, DocumentKind, Expected};
use pes::tool::policy::{CompiledRules, POLICY_ID, Policies, Policy, check};
use rstest::rstest;
use serde_json::{Value, json};

use super::settings;
use crate::support::store::fresh_store;

fn rules(rules: Value) -> Vec<PolicyRule> {
    let rules: Vec<PolicyRule> = serde_json::from_value(rules).unwrap();
    check(&rules).unwrap();
    rules
}

pub(super) fn policy(server: Value, tenant: Value) -> Policy {
    Policy {
        environment: Environment::Development,
        server: Arc::new(CompiledRules::new(&rules(server), RuleScope::Server)),
        tenant: Some(Arc::new(CompiledRules::new(&rules(tenant), RuleScope::Tenant))),
    }
}

/// The decision about `mail__send` with these arguments on the thread `vip-1`.
pub(super) fn decided(policy: &Policy, settings: &RunSettings, arguments: &Value) -> Ruling {
    let thread = ThreadId::from("vip-1");
    let call = Proposal { thread: &thread, settings, tool: "mail__send", arguments };
    policy.decide(&call, policy.class_default(ToolClass::Write, false))
}

fn rule_of(policy: &Policy) -> String {
    decided(policy, &settings(None, &[]), &json!({ "to": "a@example.com", "amount": 7 })).rule
}

#[rstest]
#[case::a_thread_before_a_tool(
    json!([{ "id": "no", "tool": "mail__send", "action": "deny" }, { "id": "yes", "thread": "vip-*", "action": "auto" }]))]
#[case::an_exact_thread_before_a_glob(
    json!([{ "id": "no", "thread": "vip-*", "tool": "mail__send", "action": "deny" },
           { "id": "yes", "thread": "vip-1", "action": "auto" }]))]
#[case::an_exact_tool_before_a_glob_with_conditions(
    json!([{ "id": "no", "tool": "mail__*", "when": [{ "pointer": "/to", "op": "exists" }], "action": "deny" },
           { "id": "yes", "tool": "mail__send", "action": "auto" }]))]
#[case::the_longer_glob(
    json!([{ "id": "no", "tool": "mail__*", "action": "deny" }, { "id": "yes", "tool": "mail__s*", "action": "auto" }]))]
#[case::more_conditions(
    json!([{ "id": "no", "when": [{ "pointer": "/to", "op": "exists" }], "action": "deny" },
           { "id": "yes", "action": "auto", "when": [{ "pointer": "/to", "op": "matches", "value": "*@example.com" },
                                                     { "pointer": "/amount", "op": "lt", "value": 10 }] }]))]
#[case::the_stricter_of_equals(
    json!([{ "id": "no", "action": "auto" }, { "id": "yes", "action": "ask" }, { "id": "nor", "action": "auto" }]))]
#[case::the_first_of_equals(json!([{ "id": "yes", "action": "ask" }, { "id": "no", "action": "ask" }]))]
#[case::one_whose_conditions_hold(
    json!([{ "id": "yes", "action": "deny" },
           { "id": "no", "action": "auto", "when": [{ "pointer": "/amount", "op": "gt", "value": 7 }] }]))]
fn the_most_specific_rule_decides(#[case] tenant: Value) {
    assert_eq!(rule_of(&policy(json!([]), tenant.clone())), "yes");
    assert_eq!(rule_of(&policy(tenant, json!([]))), "yes");
}

#[test]
fn the_more_specific_scope_decides_between_equals_and_a_denial_of_the_server_is_final() {
    let asks = json!([{ "id": "server", "tool": "mail__*", "action": "ask" }]);
    let allows = |tool: &str| json!([{ "id": "tenant", "tool": tool, "action": "auto" }]);
    assert_eq!(rule_of(&policy(asks.clone(), allows("mail__*"))), "tenant");
    assert_eq!(rule_of(&policy(asks.clone(), allows("*"))), "server");
    let denies = json!([{ "id": "server", "action": "deny" }]);
    assert_eq!(rule_of(&policy(denies, allows("mail__send"))), "server");
    let but = json!([{ "id": "server", "action": "deny" }, { "id": "but", "tool": "mail__send", "action": "auto" }]);
    assert_eq!(rule_of(&policy(but, json!([]))), "but", "its own exception is its own");
}

#[test]
fn a_thread_makes_a_rule_only_stricter() {
    let said = |action| settings(None, &[("mail__send", action)]);
    let asks = policy(json!([]), json!([{ "id": "rule", "action": "ask", "fourEyes": true }]));
    let ruling = decided(&asks, &said(PolicyAction::Auto), &json!({}));
    assert_eq!((ruling.action, ruling.rule.as_str(), ruling.scope), (PolicyAction::Ask, "rule", RuleScope::Tenant));
    assert!(decided(&asks, &said(PolicyAction::Ask), &json!({})).terms.four_eyes, "the rule's terms stay");
    let ruling = decided(&asks, &said(PolicyAction::Deny), &json!({}));
    assert_eq!((ruling.action, ruling.scope), (PolicyAction::Deny, RuleScope::Thread));
}

#[test]
fn above_a_default_stands_what_the_thread_says_but_in_production_it_allows_nothing_that_is_denied() {
    let mut none = policy(json!([]), json!([]));
    let action = |policy: &Policy, said| decided(policy, &settings(None, said), &json!({})).action;
    assert_eq!(action(&none, &[]), PolicyAction::Auto);
    assert_eq!(action(&none, &[("*", PolicyAction::Deny)]), PolicyAction::Deny);
    none.environment = Environment::Production;
    assert_eq!(action(&none, &[]), PolicyAction::Deny, "a tool that writes and that no rule knows");
    assert_eq!(action(&none, &[("mail__send", PolicyAction::Auto)]), PolicyAction::Deny);
    assert_eq!(action(&none, &[("mail__send", PolicyAction::Ask)]), PolicyAction::Ask);
}

#[test]
fn rules_that_cannot_mean_anything_are_refused_at_their_place() {
    let refused = |rule: Value| {
        let rules: Vec<PolicyRule> = serde_json::from_value(json!([{ "id": "a", "action": "ask" }, rule])).unwrap();
        check(&rules).unwrap_err().errors.remove(0).pointer
    };
    let when = |pointer: &str, op: &str, value: Value| {
        refused(json!({ "action": "ask", "when": [{ "pointer": pointer, "op": op, "value": value }] }))
    };
    assert_eq!(refused(json!({ "id": "a", "action": "ask" })), "/rules/1/id");
    assert_eq!(refused(json!({ "tool": "", "action": "ask" })), "/rules/1/tool");
    assert_eq!(refused(json!({ "action": "ask", "expiresAfterMs": 0 })), "/rules/1/expiresAfterMs");
    assert_eq!(when("to", "eq", json!(1)), "/rules/1/when/0/pointer");
    assert_eq!(when("/to", "lt", json!([])), "/rules/1/when/0/value");
    assert_eq!(when("/to", "in", json!("a")), "/rules/1/when/0/value");
    assert_eq!(when("/to", "matches", json!(1)), "/rules/1/when/0/value");
    let many = vec![PolicyRule::of_tool("*", PolicyAction::Ask); pes::tool::policy::MAX_RULES + 1];
    assert_eq!(check(&many).unwrap_err().errors[0].pointer, "/rules");
    for unknown in [json!({ "action": "ask", "tenant": "x" }), json!({ "action": "perhaps" }), json!({ "tool": "*" })] {
        assert!(serde_json::from_value::<PolicyRule>(unknown).is_err());
    }
}

#[tokio::test]
async fn a_change_counts_at_once_and_what_cannot_be_read_denies() {
    let documents = DocumentCache::open(fresh_store().await).await.unwrap();
    let mut config = Config::default();
    config.agent.tool_policy.insert("mail__*".to_owned(), PolicyAction::Ask);
    let policies = Policies::of_server(&config, documents.clone()).unwrap();
    let write = async |body: Value| {
        let (tenant, kind, id) = (TenantPk(1), DocumentKind::Policy, POLICY_ID.to_owned());
        let change = Change {
            tenant,
            kind,
            id,
            body: Some(body),
            by: "ann".to_owned(),
            former: None,
            by_tenant: None,
            why: None,
            now: 1,
        };
        documents.write(change, Expected::Any).await.unwrap();
        rule_of(&policies.of(TenantPk(1)))
    };
    assert_eq!(rule_of(&policies.of(TenantPk(1))), "toolPolicy mail__* = ask");
    assert_eq!(write(json!({ "rules": [{ "id": "one", "tool": "mail__send", "action": "auto" }] })).await, "one");
    assert!(Arc::ptr_eq(&policies.of(TenantPk(1)), &policies.of(TenantPk(1))), "compiled once");
    assert_eq!(write(json!({ "rules": [] })).await, "toolPolicy mail__* = ask");
    write(json!({ "rules": [{ "action": "shrug" }] })).await;
    let (thread, none, nothing) = (ThreadId::from("t"), settings(None, &[]), json!({}));
    let call = Proposal { thread: &thread, settings: &none, tool: "calculator", arguments: &nothing };
    let policy = policies.of(TenantPk(1));
    assert_eq!(policy.decide(&call, policy.class_default(ToolClass::Read, true)).rule, "unreadable policy");
    assert_eq!(rule_of(&policies.of(TenantPk(2))), "toolPolicy mail__* = ask", "another tenant's");
}
