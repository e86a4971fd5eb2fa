//! The cost of one policy decision with 1,000 rules of a tenant, in three forms: each for another tool, each a glob, or all
//! for the same tool with conditions. It must stay below 20 µs.
//!
//! `cargo bench --features internals --bench policy`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use pes::config::Environment;
use pes::domain::ids::ThreadId;
use pes::domain::policy::{PolicyRule, RuleScope};
use pes::domain::settings::RunSettings;
use pes::domain::tool::{Proposal, ToolClass};
use pes::tool::policy::{CompiledRules, Policy, check};
use serde_json::{Value, json};

const RULES: usize = 1_000;

fn policy(rule: impl Fn(usize) -> Value) -> Policy {
    let rules: Vec<PolicyRule> =
        (0..RULES).map(|at| serde_json::from_value(rule(at)).expect("a rule as the API takes it")).collect();
    check(&rules).expect("sound rules");
    Policy {
        environment: Environment::Production,
        server: Arc::new(CompiledRules::default()),
        tenant: Some(Arc::new(CompiledRules::new(&rules, RuleScope::Tenant))),
    }
}

fn decisions(criterion: &mut Criterion) {
    let policies = [
        ("each about another tool", policy(|at| json!({ "tool": format!("tool_{at}"), "action": "ask" }))),
        ("each another glob", policy(|at| json!({ "tool": format!("*_{at}"), "action": "ask" }))),
        (
            "all about this tool, by one argument",
            policy(|at| {
                let to = format!("{at}@example.com");
                json!({ "tool": "tool_*", "action": "auto", "when": [{ "pointer": "/to", "op": "eq", "value": to }] })
            }),
        ),
        (
            "all about this tool, by two arguments and the thread",
            policy(|at| {
                json!({ "tool": "tool_*", "thread": "vip-*", "action": "ask", "when": [
                    { "pointer": "/amount", "op": "gt", "value": 1_000_000 + at },
                    { "pointer": "/to", "op": "matches", "value": format!("*@{at}.example.com") }] })
            }),
        ),
    ];
    let (thread, settings) = (ThreadId::from("vip-1"), RunSettings::default());
    let arguments = json!({ "to": "somebody@elsewhere.example", "amount": 7, "text": "x".repeat(1_000) });
    let call = Proposal { thread: &thread, settings: &settings, tool: "tool_999", arguments: &arguments };
    for (name, policy) in &policies {
        criterion.bench_function(&format!("policy/1000 rules, {name}"), |bench| {
            bench.iter(|| policy.decide(black_box(&call), policy.class_default(ToolClass::Write, false)));
        });
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
