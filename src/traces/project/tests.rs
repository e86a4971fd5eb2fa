//! The spans of recorded logs: invariants of every log, and one whole tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::Subject;
use super::projection::{MAX_TEXT_BYTES, Projection, value_of};
use crate::domain::facts::Fact;
use crate::domain::observation::{Observation, ObservationType};
use crate::traces::span::{Attribute, Span, SpanId};
use crate::traces::{LogRange, names, needs_texts};

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

/// The range of the first activation up to `until`.
fn range(subject: &Subject, until: i64) -> LogRange {
    let (run_id, trace_id) = (subject.run.clone(), subject.trace_id.clone());
    LogRange { run_id, trace_id, parent: None, after: 0, activation: 1, until, exported_until: 0, is_open: false }
}

/// These logs contain whole plans. Those of `PLAN` are no facts; of an update the fact is left.
fn fact(seen: &Observation) -> Option<Fact> {
    let mut seen = seen.clone();
    if seen.kind == ObservationType::PlanUpdate {
        let members = seen.content.as_object_mut().expect("an object");
        members.retain(|name, _| matches!(name.as_str(), "planVersion" | "source"));
    }
    seen.fact().ok()
}

fn apply<'l>(projection: &mut Projection, log: impl Iterator<Item = &'l Observation>) {
    for seen in log {
        if let Some(fact) = fact(seen) {
            projection.apply(seen.seq, seen.parent_id.as_ref(), seen.timestamp, &fact);
        }
    }
}

/// The observations of a run in `after + 1 ..= until`.
fn part<'l>(
    subject: &Subject,
    log: &'l [Observation],
    after: i64,
    until: i64,
) -> impl Iterator<Item = &'l Observation> {
    let run = subject.run.clone();
    log.iter().filter(move |seen| seen.run_id == run && seen.seq > after && seen.seq <= until)
}

/// The spans of a range, made from the log as a process makes them that did not follow the run.
fn spans_of(subject: &Subject, log: &[Observation], range: &LogRange) -> Vec<Span> {
    let mut projection = Projection::new(subject.clone());
    apply(&mut projection, part(subject, log, 0, range.after));
    if range.after > 0 {
        projection.continue_as(range.activation);
    }
    apply(&mut projection, part(subject, log, range.after, range.until));
    projection.take_spans(range)
}

/// The run as one activation.
fn whole(subject: &Subject, log: &[Observation]) -> Vec<Span> {
    spans_of(subject, log, &range(subject, i64::MAX))
}

/// The last observation of each commit of the run.
fn commits(subject: &Subject, log: &[Observation]) -> Vec<i64> {
    let of_run: Vec<&Observation> = part(subject, log, 0, i64::MAX).collect();
    let commits = of_run.chunk_by(|one, next| one.timestamp == next.timestamp);
    commits.map(|commit| commit.last().expect("a chunk is not empty").seq).collect()
}

/// The ranges of a run whose activations end after every `rest`th commit and after its last one, and which is exported after
/// every `export`th; 0: after none.
fn ranges(subject: &Subject, log: &[Observation], rest: usize, export: usize) -> Vec<LogRange> {
    let commits = commits(subject, log);
    let is_every = |nth: usize, every: usize| every > 0 && (nth + 1).is_multiple_of(every);
    let (mut ranges, mut next) = (Vec::new(), range(subject, 0));
    for (nth, until) in commits.iter().copied().enumerate() {
        let ends = nth + 1 == commits.len() || is_every(nth, rest);
        if !ends && !is_every(nth, export) {
            continue;
        }
        ranges.push(LogRange { until, is_open: !ends, ..next.clone() });
        next.exported_until = until;
        if ends {
            (next.after, next.activation) = (until, next.activation + 1);
        }
    }
    ranges
}

/// The spans of these ranges, one after the other. A process that follows the run makes the same as one that reads its log.
fn told(subject: &Subject, log: &[Observation], ranges: &[LogRange]) -> Vec<Span> {
    let (mut told, mut followed, mut seq) = (Vec::new(), Projection::new(subject.clone()), 0);
    for range in ranges {
        apply(&mut followed, part(subject, log, seq, range.until));
        seq = range.until;
        let spans = spans_of(subject, log, range);
        assert_eq!(followed.take_spans(range), spans, "{range:?}");
        told.extend(spans);
    }
    told
}

/// Calls to models, tools and other agents, by id. They are the same wherever activations end; only their parents are not.
fn calls(spans: &[Span]) -> BTreeMap<SpanId, Span> {
    let is_call = |span: &&Span| {
        let has = |name| value_of(&span.attributes, name).is_some();
        has(names::ATTEMPT) || has(names::TOOL_CALL) || has(names::TASK)
    };
    spans.iter().filter(is_call).map(|span| (span.id, Span { parent: None, ..span.clone() })).collect()
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
fn however_a_run_is_divided_it_is_told_whole_and_each_span_once(
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
    #[values(0, 1, 2, 5)] rest: usize,
    #[values(0, 1, 3)] export: usize,
) {
    let log = log(name);
    for subject in subjects(&log) {
        let ranges = ranges(&subject, &log, rest, export);
        let told = told(&subject, &log, &ranges);
        let ids: BTreeSet<SpanId> = told.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), told.len(), "{name}: no span is told twice");
        for span in &told {
            assert!(span.start <= span.end, "{name}: {span:?}");
            let is_known = span.parent == subject.parent || span.parent.is_some_and(|parent| ids.contains(&parent));
            assert!(is_known, "{name}: the parent of {span:?} is not told");
        }
        assert_eq!(calls(&told), calls(&whole(&subject, &log)), "{name}: each call is told, and told whole");

        let of_run: Vec<&Observation> = part(&subject, &log, 0, i64::MAX).collect();
        if of_run.iter().any(|seen| seen.kind == ObservationType::RunFinished) {
            let count = |operation: &'static str| {
                let value = Attribute::from(operation);
                told.iter().filter(|span| value_of(&span.attributes, names::OPERATION) == Some(&value)).count()
            };
            let logged = |kind| of_run.iter().filter(|seen| seen.kind == kind).count();
            assert_eq!(count("chat"), logged(ObservationType::LlmStreamStart), "{name}");
            assert_eq!(count("execute_tool"), logged(ObservationType::ToolExecution), "{name}");
        }
        let activations = told.iter().filter(|span| value_of(&span.attributes, names::ACTIVATION).is_some());
        let activations: Vec<(SpanId, Option<SpanId>)> = activations.map(|span| (span.id, span.link)).collect();
        assert_eq!(activations.len(), ranges.iter().filter(|range| !range.is_open).count(), "{name}");
        let before = std::iter::once(None).chain(activations.iter().map(|(id, _)| Some(*id)));
        assert!(activations.iter().map(|(_, link)| *link).eq(before.take(activations.len())), "{name}: {told:#?}");
    }
}

#[test]
fn an_approved_run_is_two_linked_activations() {
    let log = log("asked");
    let subject = subjects(&log).remove(0);
    let asked = log.iter().find(|seen| seen.kind == ObservationType::AgentSuspended).expect("it asks");
    let is_later = |commit: &&i64| **commit >= asked.seq;
    let after = *commits(&subject, &log).iter().find(is_later).expect("its commit");
    let first = range(&subject, after);
    let second = LogRange { after, activation: 2, exported_until: after, ..range(&subject, i64::MAX) };
    let told = told(&subject, &log, &[first, second]);
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

/// Replaces every text but those of errors, which are stored in the fact itself.
fn blank(value: &mut Value) {
    match value {
        Value::String(text) if text.trim().contains(' ') => *text = "not read".to_owned(),
        Value::Array(values) => values.iter_mut().for_each(blank),
        Value::Object(members) => {
            for (name, value) in members {
                let is_of_error =
                    matches!(name.as_str(), "error" | "reason") || (name == "message" && value.is_string());
                if !is_of_error && name != "rule" {
                    blank(value);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Of a long run, an export need not read again what was exported before.
#[rstest]
fn only_the_texts_that_its_spans_contain_are_read_for_a_range(
    #[values("again", "demo", "doubt")] name: &str,
    #[values(0, 3)] rest: usize,
) {
    let (log, mut spared) = (log(name), 0);
    for subject in subjects(&log) {
        let subject = Subject { with_content: true, ..subject };
        for range in ranges(&subject, &log, rest, 1) {
            let mut read = log.clone();
            for seen in &mut read {
                let is_exported = seen.seq <= range.exported_until;
                if fact(seen).is_none_or(|fact| needs_texts(&fact, is_exported)) {
                    let is_long = matches!(seen.kind, ObservationType::LlmStreamEnd | ObservationType::ToolExecution);
                    assert!(!(is_long && is_exported), "{seen:?} was exported before");
                    continue;
                }
                let whole = seen.content.clone();
                match seen.kind {
                    ObservationType::LlmStreamEnd => seen.content["text"] = "not read".into(),
                    ObservationType::ToolExecution => seen.content["output"] = "not read".into(),
                    _ => {}
                }
                blank(&mut seen.content);
                spared += usize::from(seen.content != whole);
            }
            assert_eq!(spans_of(&subject, &read, &range), spans_of(&subject, &log, &range), "{range:?}");
        }
    }
    assert!(spared > 0, "{name}: nothing is left out");
}

/// `gen_ai.output.messages` has a schema of its own, which requires the reason of the end.
#[test]
fn what_a_model_wrote_is_in_the_format_of_the_conventions() {
    let log = log("demo");
    let (mut replies, mut empty) = (0, 0);
    for subject in subjects(&log) {
        let told = whole(&Subject { with_content: true, ..subject }, &log);
        let chats = told.iter().filter(|span| value_of(&span.attributes, names::FINISH_REASONS).is_some());
        for chat in chats {
            let Some(Attribute::Text(text)) = value_of(&chat.attributes, names::OUTPUT_MESSAGES) else {
                panic!("{chat:?}");
            };
            let output: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!((&output[0]["role"], output.as_array().map(Vec::len)), (&json!("assistant"), Some(1)));
            let reason = output[0]["finish_reason"].as_str().expect("a text");
            let expected = Attribute::TextList(vec![reason.to_owned()]);
            assert_eq!(value_of(&chat.attributes, names::FINISH_REASONS), Some(&expected));
            let parts = output[0]["parts"].as_array().expect("a list");
            assert!(parts.iter().all(|part| part["type"] == "text" && part["content"] != ""), "{output}");
            replies += 1;
            empty += usize::from(parts.is_empty());
        }
    }
    assert!(replies > empty && empty > 0, "{empty} of {replies} replies only asked for calls");
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
