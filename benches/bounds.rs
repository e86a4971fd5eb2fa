//! The most expensive inputs that are still accepted. Each must take less than 50 ms if it is handled on the server's async
//! threads. The limits are constants beside the code; docs/GUARANTEES.md lists them.
//!
//! `cargo bench --features internals --bench bounds`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use pes::config::Environment;
use pes::domain::digest;
use pes::domain::hitl::{FeedbackSchema, InputType, SelectOption};
use pes::domain::ids::ThreadId;
use pes::domain::policy::{PolicyRule, RuleScope};
use pes::domain::settings::RunSettings;
use pes::domain::tool::{Proposal, ToolClass};
use pes::domain::which_thread::{Candidate, Normal, Said, SentBack, Shown, ShownUntil, choose};
use pes::tool::answer;
use pes::tool::policy::{CompiledRules, MAX_EXAMINED, Policy, check};
use pes::tool::schema::{MAX_SCHEMAS, MAX_WORK, Schema};
use serde_json::{Map, Value, json};

fn compiled(schema: &Value) -> Schema {
    Schema::compile(schema).unwrap_or_else(|no| panic!("{no:?}"))
}

/// As many values as the schema accepts: one more is refused.
fn fullest(schema: &Schema, item: &Value, values_of_item: u64) -> Value {
    let count = MAX_WORK / schema.cost().steps / values_of_item;
    vec![item.clone(); usize::try_from(count).expect("it is small").saturating_sub(1)].into()
}

fn schemas(criterion: &mut Criterion) {
    let wide: Map<String, Value> =
        (0..MAX_SCHEMAS - 1).map(|at| (format!("p{at}"), json!({ "type": "string" }))).collect();
    let wide = json!({ "type": "object", "properties": wide });
    criterion.bench_function("bounds/compiling the largest schema", |bench| {
        bench.iter(|| compiled(black_box(&wide)));
    });
    let patterns: Map<String, Value> =
        (0..300).map(|at| (format!("p{at}"), json!({ "pattern": format!("^[a-z]{{1,60}}{at}$") }))).collect();
    let patterns = json!({ "properties": patterns });
    criterion.bench_function("bounds/compiling the most expressions", |bench| {
        bench.iter(|| compiled(black_box(&patterns)));
    });
    let choices: Vec<Value> = (0..900).map(|at| json!({ "const": at })).collect();
    let strings: Vec<Value> = (0..400).map(|at| json!({ "required": [format!("k{at}")] })).collect();
    for (name, schema, item, values) in [
        ("choices of numbers", json!({ "items": { "anyOf": choices } }), json!(-1), 1),
        ("choices of members", json!({ "items": { "oneOf": strings } }), json!({ "a": 1 }), 2),
        ("lists of different lists", json!({ "uniqueItems": true }), json!([[], [[]]]), 4),
        (
            "a tree",
            json!({ "items": { "$ref": "#" }, "type": ["array", "integer"], "uniqueItems": true }),
            json!([1]),
            2,
        ),
    ] {
        let schema = compiled(&schema);
        let value = fullest(&schema, &item, values);
        criterion.bench_function(&format!("bounds/checking {name}"), |bench| {
            bench.iter(|| schema.mistakes(black_box(&value)));
        });
    }
    let slow = compiled(&json!({ "pattern": "[01]*1[01]{900}$" }));
    let text = "01".repeat(usize::try_from(MAX_WORK / slow.cost().text / 2).expect("it is small") - 8);
    criterion.bench_function("bounds/checking an expression", |bench| {
        bench.iter(|| slow.mistakes(black_box(&text.as_str().into())));
    });
}

fn values(criterion: &mut Criterion) {
    let options: Vec<SelectOption> =
        (0..60_000).map(|at| SelectOption { value: at.into(), label: String::new() }).collect();
    let form = FeedbackSchema {
        input_type: InputType::Multiselect,
        prompt: "?".to_owned(),
        options,
        allow_modify_args: false,
        custom_schema: None,
    };
    let chosen: Value = (0..60_000).rev().collect::<Vec<_>>().into();
    criterion.bench_function("bounds/60,000 of 60,000 options", |bench| {
        bench.iter(|| answer::check(black_box(&form), black_box(&chosen)));
    });
    let arguments: Map<String, Value> = (0..60_000).rev().map(|at| (format!("k{at}"), json!(at))).collect();
    let arguments = Value::Object(arguments);
    criterion.bench_function("bounds/the digest of 60,000 members", |bench| {
        bench.iter(|| digest::of(black_box(&arguments)));
    });
    let text = "a".repeat(1 << 20);
    criterion.bench_function("bounds/a glob of 200 parts and 1 MiB of text", |bench| {
        let glob = format!("*{}", "aaab*".repeat(200));
        bench.iter(|| pes::tool::policy::matches(black_box(&glob), black_box(&text)));
    });
}

/// A conversation of 1 MiB, and one with as many messages as such a body can hold.
fn conversations(criterion: &mut Criterion) {
    let answer = |text: &str| Said::Assistant { text: text.to_owned(), calls: Vec::new() };
    let long = "a <think>b</think> ".repeat((1 << 20) / 19);
    for (name, said) in [("one long answer", vec![answer(&long)]), ("30,000 empty answers", vec![answer(""); 30_000])] {
        criterion.bench_function(&format!("bounds/a conversation: {name}"), |bench| {
            bench.iter(|| SentBack::of(black_box(&said)));
        });
        let shown = ShownUntil::from(vec![Shown::Answer(Normal::of(&long))]);
        let candidate = Candidate {
            thread: "t".into(),
            run: "run_1".into(),
            seq: 1,
            shown: shown.clone(),
            ends_there: true,
            may_be_cut: false,
        };
        let (sent, found) = (SentBack::of(&said), vec![candidate; 20]);
        // Work of this many steps runs outside the async threads.
        criterion.bench_function(&format!("bounds/which of 20 threads: {name}"), |bench| {
            bench.iter(|| choose(black_box(&sent), black_box(&found)));
        });
    }
}

/// Uses all steps of one evaluation, with the slowest kinds of conditions.
fn conditions(criterion: &mut Criterion) {
    let long = |text: &str| text.repeat((MAX_EXAMINED - 64) / text.len());
    let (thread, settings) = (ThreadId::from("t"), RunSettings::default());
    for (name, op, value, argument) in [
        ("texts that grow", "eq", json!("x"), json!(long("\u{fdfa}"))),
        ("letters with accents", "eq", json!("x"), json!(long("\u{1f82}"))),
        ("searches", "contains", json!(format!("{}b", "a".repeat(1_000))), json!(long("a"))),
        ("addresses in a text", "matches", json!("*@*b"), json!(long("a@,"))),
        ("lines of a text", "matches", json!("*b"), json!(long("a\n"))),
        ("addresses", "email_domain", json!("b.example"), json!(long("a@b\u{fc}.example,").trim_end_matches(','))),
        ("hosts", "host", json!("b.example"), json!(vec!["https://b\u{fc}.example/"; 1_500])),
    ] {
        let when = |at: usize| json!({ "pointer": format!("/{}", at % 16), "op": op, "value": value });
        let rule = |at: usize| json!({ "tool": "t", "action": "deny", "when": vec![when(at)] });
        let rules: Vec<PolicyRule> = (0..200).map(|at| serde_json::from_value(rule(at)).expect("a rule")).collect();
        check(&rules).expect("sound rules");
        let policy = Policy {
            environment: Environment::Development,
            server: Arc::new(CompiledRules::default()),
            tenant: Some(Arc::new(CompiledRules::new(&rules, RuleScope::Tenant))),
        };
        let arguments = json!(vec![argument; 16]);
        let call = Proposal { thread: &thread, settings: &settings, tool: "t", arguments: &arguments };
        criterion.bench_function(&format!("bounds/conditions: {name}"), |bench| {
            bench.iter(|| policy.decide(black_box(&call), policy.class_default(ToolClass::Write, false)));
        });
    }
}

criterion_group!(benches, schemas, values, conversations, conditions);
criterion_main!(benches);
