//! The spans of recorded logs: invariants of every log, and one whole tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use rstest::rstest;

use super::*;
use crate::domain::observation::{Observation, ObservationType};

fn log(name: &str) -> Vec<Observation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/console/{name}.ndjson"));
    let text = std::fs::read_to_string(path).expect("a recorded log");
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        serde_json::from_value(line["observation"].clone()).expect("an observation")
    };
    text.lines().map(read).collect()
}

/// The runs of a log.
fn subjects(log: &[Observation]) -> Vec<Subject> {
    let runs: BTreeMap<&str, &Observation> = log
        .iter()
        .filter(|seen| seen.kind == ObservationType::RunStarted)
        .map(|seen| (seen.run_id.as_str(), seen))
        .collect();
    let subject = |seen: &&Observation| Subject {
        thread: seen.thread_id.clone(),
        run: seen.run_id.clone(),
        trace_id: seen.trace_id.clone(),
        parent: SpanId::parse("00f067aa0ba902b7"),
        with_content: false,
    };
    runs.values().map(subject).collect()
}

/// The range of a commit that ends at `until`.
fn range(subject: &Subject, after: i64, until: i64) -> LogRange {
    let (run_id, trace_id) = (subject.run.clone(), subject.trace_id.clone());
    LogRange { run_id, trace_id, parent: None, after, until, exported_until: 0, is_open: false }
}

/// The spans of a range; `log` may contain other runs.
fn spans_of(subject: &Subject, log: &[Observation], range: &LogRange) -> Vec<Span> {
    let mut projection = Projection::new(subject.clone());
    for seen in log.iter().filter(|seen| seen.run_id == subject.run) {
        // These logs contain whole plans, which are no facts and cause no spans.
        if let Ok(fact) = seen.fact() {
            projection.apply(seen.seq, seen.parent_id.as_ref(), seen.timestamp, &fact);
        }
    }
    projection.spans(range)
}

fn whole(subject: &Subject, log: &[Observation]) -> Vec<Span> {
    spans_of(subject, log, &range(subject, 0, i64::MAX))
}

/// The spans as a tree: name, status, and how long they took.
fn tree(spans: &[Span], parent: Option<SpanId>, depth: usize, text: &mut String) {
    for span in spans.iter().filter(|span| span.parent == parent) {
        let failure = span.failure.as_deref().map(|why| format!(" !{why}")).unwrap_or_default();
        let link = if span.link.is_some() { " linked" } else { "" };
        writeln!(text, "{}{}{failure}{link}", "  ".repeat(depth), span.name).expect("a text takes it");
        for event in &span.events {
            writeln!(text, "{}* {}", "  ".repeat(depth + 1), event.name).expect("a text takes it");
        }
        tree(spans, Some(span.id), depth + 1, text);
    }
}

#[rstest]
fn every_log_is_told_whole_and_each_span_once(
    #[values(
        "again",
        "asked",
        "back",
        "changed",
        "delegated",
        "demo",
        "doubt",
        "edited",
        "expired",
        "failed",
        "hostile",
        "refused",
        "retried",
        "slow",
        "stepped"
    )]
    name: &str,
) {
    let log = log(name);
    for subject in subjects(&log) {
        let of_run: Vec<&Observation> = log.iter().filter(|seen| seen.run_id == subject.run).collect();
        let is_over = of_run.iter().any(|seen| seen.kind == ObservationType::RunFinished);
        let whole = whole(&subject, &log);
        let ids: BTreeSet<SpanId> = whole.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), whole.len(), "{name}: no id stands twice");
        for span in &whole {
            assert!(span.start <= span.end, "{name}: {span:?}");
            let is_known = span.parent == subject.parent || span.parent.is_some_and(|parent| ids.contains(&parent));
            assert!(is_known, "{name}: the parent of {span:?} is not told");
        }
        if is_over {
            let count = |operation: &'static str| {
                let value = Attribute::from(operation);
                whole.iter().filter(|span| value_of(&span.attributes, names::OPERATION) == Some(&value)).count()
            };
            let told = |kind| of_run.iter().filter(|seen| seen.kind == kind).count();
            assert_eq!(count("chat"), told(ObservationType::LlmStreamStart), "{name}");
            assert_eq!(count("execute_tool"), told(ObservationType::ToolExecution), "{name}");
        }
        // As it is delivered: after each commit that may be the last for a while.
        let mut delivered = Vec::new();
        let mut before = 0;
        for until in commits(&log) {
            let seen = up_to(&log, until);
            delivered.extend(spans_of(&subject, &seen, &range(&subject, before, until)));
            before = until;
        }
        assert_eq!(delivered, whole, "{name}: what is told piece by piece is the whole, and nothing twice");
    }
}

/// The last observation of each commit.
fn commits(log: &[Observation]) -> Vec<i64> {
    let commits = log.chunk_by(|one, next| one.timestamp == next.timestamp && one.run_id == next.run_id);
    commits.map(|commit| commit.last().expect("a chunk is not empty").seq).collect()
}

fn up_to(log: &[Observation], until: i64) -> Vec<Observation> {
    log.iter().filter(|seen| seen.seq <= until).cloned().collect()
}

/// With exports while an activation is open, after every nth commit.
#[rstest]
fn a_run_that_is_told_while_it_goes_on_is_told_whole_and_each_span_once(
    #[values(
        "again",
        "asked",
        "back",
        "delegated",
        "demo",
        "doubt",
        "edited",
        "hostile",
        "retried",
        "slow",
        "stepped"
    )]
    name: &str,
    #[values(1, 2, 3, 7)] every: usize,
) {
    let log = log(name);
    for subject in subjects(&log) {
        let (mut delivered, mut early) = (Vec::new(), 0);
        let (mut before, mut exported_until) = (0, 0);
        for (nth, until) in commits(&log).into_iter().enumerate() {
            let seen = up_to(&log, until);
            let range = LogRange { exported_until, ..range(&subject, before, until) };
            delivered.extend(spans_of(&subject, &seen, &range));
            if nth % every == 0 {
                let meanwhile = spans_of(&subject, &seen, &LogRange { is_open: true, ..range });
                early += meanwhile.len();
                delivered.extend(meanwhile);
                exported_until = until;
            }
            before = until;
        }
        let sorted = |mut spans: Vec<Span>| {
            spans.sort_by_key(|span| span.id);
            spans
        };
        let whole = whole(&subject, &log);
        let has_steps = whole.len() > 3;
        assert_eq!(sorted(delivered), sorted(whole), "{name}");
        assert!(early > 0 || every > 1 || !has_steps, "{name}: something is told before the end");
    }
}

#[test]
fn an_approved_run_is_two_linked_activations() {
    let log = log("asked");
    let subject = subjects(&log).remove(0);
    let told = whole(&subject, &log);
    let mut text = String::new();
    tree(&told, subject.parent, 0, &mut text);
    assert_eq!(text, EXPECTED, "{text}");
}

/// Every text in this value that is no single word: what people, models and tools said.
fn sentences(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.trim().contains(' ') => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| sentences(value, found)),
        // The name of a rule of the policy is no content, and spans have it.
        Value::Object(members) => {
            members.iter().filter(|(name, _)| *name != "rule").for_each(|(_, value)| sentences(value, found));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Nor do errors quote it.
#[rstest]
fn without_content_no_span_holds_a_sentence_of_it(#[values("hostile", "failed", "demo", "delegated")] name: &str) {
    let log = log(name);
    let mut said = Vec::new();
    log.iter().for_each(|seen| sentences(&seen.content, &mut said));
    for subject in subjects(&log) {
        let told = |with_content| {
            let subject = Subject { with_content, ..subject.clone() };
            format!("{:?}", whole(&subject, &log))
        };
        let holds = |spans: &str| said.iter().filter(|text| spans.contains(text.as_str())).cloned().collect::<Vec<_>>();
        assert_eq!(holds(&told(false)), [""; 0], "{name}");
        assert!(!holds(&told(true)).is_empty(), "{name}: the same search finds what is there");
    }
}

#[test]
fn a_text_in_a_span_is_cut_at_its_bound_and_only_what_ends_a_run_fails_it() {
    let mut log = log("demo");
    let subject = Subject { with_content: true, ..subjects(&log).remove(0) };
    let is_of_run = |seen: &&mut Observation| seen.run_id == subject.run;
    for seen in log.iter_mut().filter(is_of_run) {
        match seen.kind {
            ObservationType::RunStarted => seen.content["query"] = "é".repeat(MAX_TEXT_BYTES).into(),
            ObservationType::Title => {
                seen.kind = ObservationType::Error;
                seen.content = json!({ "phase": "planning", "code": "invalid_plan", "message": "Again.", "fatal": false,
                    "retryable": true });
            }
            _ => {}
        }
    }
    let told = whole(&subject, &log);
    let activation = told.iter().find(|span| span.name.starts_with("invoke_agent")).expect("the run");
    assert_eq!(activation.failure, None);
    let Some(Attribute::Text(query)) = value_of(&activation.attributes, names::INPUT_MESSAGES) else {
        panic!("{activation:?}");
    };
    assert_eq!(query.matches('é').count(), MAX_TEXT_BYTES / 2);
}

const EXPECTED: &str = "\
invoke_agent pes
  * pes.suspended
  plan
    chat demo-scripted
  pes.step
    chat demo-scripted
invoke_agent pes linked
  * pes.resumed
  pes.step
    execute_tool ask_user
    chat demo-scripted
  chat demo-scripted
";
