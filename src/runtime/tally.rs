//! What is committed is counted, and what failed is said in the log: a failing server must not look healthy.
//!
//! Taken from the records of a step before they are written, told after: what is not stored is not counted. No label is a
//! tenant's word.

use metrics::{counter, histogram};
use serde_json::Value;

use super::publish::cut;
use super::shared::Shared;
use crate::domain::ids::{ItemId, RunId, TenantPk};
use crate::domain::observation::{ObservationType, Record};
use crate::domain::run::{ResultStatus, Run, RunStatus};
use crate::engine::step::Step;

/// The tenant of no one: what it may call is what the operator named.
const NOBODY: TenantPk = TenantPk(0);
/// Characters of a cause in the log.
const CAUSE: usize = 300;

/// What one step brings.
#[derive(Default)]
pub(super) struct Tally(Vec<Fact>);

enum Fact {
    RunStarted { waited_ms: i64 },
    RunFinished { result: &'static str, took_ms: i64 },
    Failed(Box<Failure>),
    Item { status: String },
    Tool { name: String, outcome: String, took_ms: i64 },
    Asked { kind: String },
    Answered { decision: String },
    Ruled { action: String },
    Used { provider: String, model: String, used: [(&'static str, u64); 4], cost_usd: Option<f64> },
}

/// Something that somebody should look at.
struct Failure {
    what: &'static str,
    code: String,
    cause: String,
    run: Option<Of>,
    run_id: RunId,
    item: Option<ItemId>,
}

/// Of which run it is.
struct Of {
    trace: String,
    provider: String,
    model: String,
}

impl Tally {
    /// `active` is the run that goes on after the step.
    pub(super) fn of(step: &Step, active: Option<&Run>) -> Self {
        let mut tally = Self::default();
        let run = |id: &RunId| step.runs.iter().chain(active).find(|run| run.run_id == *id);
        for (at, record) in step.records.iter().enumerate() {
            tally.record(record, run(&record.run_id), &step.records[..at]);
        }
        tally
    }

    fn record(&mut self, record: &Record, run: Option<&Run>, before: &[Record]) {
        let content = &record.content;
        let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
        if record.kind == ObservationType::RunStarted {
            let waited_ms = run.map_or(0, |run| run.started_at.unwrap_or(run.created_at) - run.created_at);
            self.0.push(Fact::RunStarted { waited_ms });
        } else if record.kind == ObservationType::RunFinished {
            self.finished(record, run);
        } else if record.kind == ObservationType::ItemStatusChange {
            self.item(record, run, before);
        } else if record.kind == ObservationType::ToolExecution {
            let code = content["error"]["code"].as_str().map(str::to_owned);
            let took_ms = content["durationMs"].as_i64().unwrap_or(0);
            self.0.push(Fact::Tool {
                name: text("toolName"),
                outcome: code.unwrap_or_else(|| text("status")),
                took_ms,
            });
        } else if record.kind == ObservationType::AgentSuspended {
            self.0.push(Fact::Asked { kind: text("kind") });
        } else if record.kind == ObservationType::AgentResumed {
            self.0.push(Fact::Answered { decision: text("decision") });
        } else if record.kind == ObservationType::SuspensionTimeout {
            self.0.push(Fact::Answered { decision: "timeout".to_owned() });
        } else if record.kind == ObservationType::LlmStreamMetadata {
            self.used(content);
        }
        let ruling = record.metadata.as_ref().and_then(|metadata| metadata["policy"]["action"].as_str());
        // What was asked about was counted when it was.
        let is_again = |action: &&str| record.kind == ObservationType::ToolExecution && *action == "ask";
        let ruling = ruling.filter(|action| !is_again(action));
        self.0.extend(ruling.map(|action| Fact::Ruled { action: action.to_owned() }));
    }

    fn finished(&mut self, record: &Record, run: Option<&Run>) {
        let outcome = run.and_then(|run| run.outcome.as_ref());
        let result = match (run.map(|run| run.status), outcome.map(|outcome| outcome.status)) {
            (Some(RunStatus::Cancelled), _) => "cancelled",
            (Some(RunStatus::Failed), _) | (_, Some(ResultStatus::Error)) => "error",
            (_, Some(ResultStatus::Partial)) => "partial",
            (_, Some(ResultStatus::Success) | None) => "success",
        };
        let took_ms = record.content["totalDurationMs"].as_i64().unwrap_or(0);
        self.0.push(Fact::RunFinished { result, took_ms });
        if result == "error" {
            let error = outcome.and_then(|outcome| outcome.error.as_ref());
            let code = error.map_or("", |error| error.code.as_str()).to_owned();
            let cause = error.map(|error| error.message.clone()).unwrap_or_default();
            self.fail("a run failed", record, run, code, cause);
        }
    }

    fn item(&mut self, record: &Record, run: Option<&Run>, before: &[Record]) {
        let status = record.content["status"].as_str().unwrap_or_default().to_owned();
        if status == "failed" {
            let is_its = |told: &&Record| told.kind == ObservationType::Error && told.parent_id == record.parent_id;
            let error = before.iter().rev().find(is_its).map(|told| &told.content);
            let code = error.and_then(|error| error["code"].as_str()).unwrap_or_default().to_owned();
            let cause = error.and_then(|error| error["message"].as_str()).or(record.content["reason"].as_str());
            self.fail("an item failed", record, run, code, cause.unwrap_or_default().to_owned());
        }
        if ["completed", "failed", "cancelled"].contains(&status.as_str()) {
            self.0.push(Fact::Item { status });
        }
    }

    fn fail(&mut self, what: &'static str, record: &Record, run: Option<&Run>, code: String, cause: String) {
        let run = run.map(|run| Of {
            trace: run.trace_id.clone(),
            provider: run.settings.provider.clone(),
            model: run.settings.model.clone(),
        });
        let (run_id, item) = (record.run_id.clone(), record.parent_id.clone());
        self.0.push(Fact::Failed(Box::new(Failure { what, code, cause, run, run_id, item })));
    }

    fn used(&mut self, content: &Value) {
        const DIRECTIONS: [(&str, &str); 4] = [
            ("input", "inputTokens"),
            ("output", "outputTokens"),
            ("thinking", "thinkingTokens"),
            ("cached_input", "cachedInputTokens"),
        ];
        let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
        let used = DIRECTIONS.map(|(direction, name)| (direction, content[name].as_u64().unwrap_or(0)));
        let cost_usd = content["costUsd"].as_f64();
        self.0.push(Fact::Used { provider: text("provider"), model: text("model"), used, cost_usd });
    }

    /// It is committed.
    pub(super) fn tell(self, shared: &Shared, thread: &str) {
        for fact in self.0 {
            fact.tell(shared, thread);
        }
    }
}

impl Fact {
    fn tell(self, shared: &Shared, thread: &str) {
        let seconds = |ms: i64| ms.max(0) as f64 / 1000.0;
        match self {
            Fact::RunStarted { waited_ms } => {
                counter!("pes_runs_started_total").increment(1);
                histogram!("pes_run_queue_wait_seconds").record(seconds(waited_ms));
            }
            Fact::RunFinished { result, took_ms } => {
                counter!("pes_runs_finished_total", "result" => result).increment(1);
                histogram!("pes_run_duration_seconds", "result" => result).record(seconds(took_ms));
            }
            Fact::Failed(failure) => failure.warn(thread),
            Fact::Item { status } => counter!("pes_items_finished_total", "status" => status).increment(1),
            Fact::Tool { name, outcome, took_ms } => {
                let is_operators = shared.tools.toolset(NOBODY).get(&name).is_some();
                let name = if is_operators { name } else { "tenant".to_owned() };
                counter!("pes_tool_calls_total", "tool" => name.clone(), "outcome" => known(outcome)).increment(1);
                histogram!("pes_tool_call_duration_seconds", "tool" => name).record(seconds(took_ms));
            }
            Fact::Asked { kind } => counter!("pes_suspensions_total", "kind" => kind).increment(1),
            Fact::Answered { decision } => {
                counter!("pes_suspensions_answered_total", "decision" => decision).increment(1);
            }
            Fact::Ruled { action } => counter!("pes_policy_decisions_total", "action" => action).increment(1),
            Fact::Used { provider, model, used, cost_usd } => {
                let labels = [("provider", provider.clone()), ("model", shared.model_label(&provider, &model))];
                for (direction, tokens) in used {
                    let [provider, model] = labels.clone();
                    let labels = [provider, model, ("direction", direction.to_owned())];
                    counter!("pes_model_tokens_total", &labels).increment(tokens);
                }
                match cost_usd {
                    // Counters are whole numbers: `/metrics` divides these.
                    Some(usd) => counter!("pes_model_cost_usd_total", &labels).increment((usd * 1e9) as u64),
                    None => counter!("pes_model_unpriced_calls_total", &labels).increment(1),
                }
            }
        }
    }
}

/// A tool may name its errors as it likes; labels may not grow with them.
fn known(outcome: String) -> String {
    const KNOWN: [&str; 14] = [
        "success",
        "error",
        "unknown_tool",
        "disabled_tool",
        "invalid_arguments",
        "denied",
        "rejected",
        "timeout",
        "panicked",
        "output_too_large",
        "unknown",
        "failed",
        "unavailable",
        "approval_mismatch",
    ];
    if KNOWN.contains(&outcome.as_str()) { outcome } else { "other".to_owned() }
}

impl Failure {
    fn warn(&self, thread: &str) {
        let (run, cause) = (self.run.as_ref(), cut(&self.cause, CAUSE));
        tracing::warn!(
            threadId = thread,
            runId = %self.run_id,
            traceId = run.map_or("", |run| run.trace.as_str()),
            itemId = self.item.as_ref().map(|item| item.as_str()),
            code = self.code,
            cause,
            provider = run.map_or("", |run| run.provider.as_str()),
            model = run.map_or("", |run| run.model.as_str()),
            "{}",
            self.what
        );
    }
}

impl Shared {
    /// A model as a label: one that the operator chose, else `other`; callers may name any.
    pub(super) fn model_label(&self, provider: &str, model: &str) -> String {
        let chosen = self.config.models.chosen();
        let is_known = chosen.iter().any(|known| known.provider == provider && known.model == model);
        if is_known { model.to_owned() } else { "other".to_owned() }
    }
}
