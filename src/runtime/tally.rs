//! Metrics of what is committed, and log lines of what failed: a failing server must not look healthy.
//!
//! The counts are taken from the records of a step before its commit and emitted after it: what is not stored is not
//! counted. No metric label takes a value that a tenant chose.

use metrics::{counter, histogram};

use super::rows::legible;
use super::shared::Shared;
use crate::domain::facts::{AgentResumedBody, ErrorBody, Fact, ItemStatusChangeBody, RunFinishedBody};
use crate::domain::hitl::{Decision, ExpiryPolicy, Suspension, SuspensionKind};
use crate::domain::ids::{ItemId, RunId, TenantPk};
use crate::domain::model::FailureKind;
use crate::domain::observation::{ObservationType, Record};
use crate::domain::plan::ItemStatus;
use crate::domain::policy::Ruling;
use crate::domain::run::{ResultStatus, Run, RunStatus};
use crate::domain::settings::PolicyAction;
use crate::domain::tool::{CallCode, CallRecord, ToolStatus};
use crate::domain::usage::ModelUse;
use crate::engine::effect::Effect;
use crate::engine::step::{Row, RowKind, Step};

/// Bounds the characters of a cause in the log.
const MAX_CAUSE_CHARS: usize = 300;

/// The metrics and log lines of one step.
#[derive(Default)]
pub(super) struct Tally(Vec<Count>);

enum Count {
    RunStarted {
        waited_ms: i64,
    },
    RunFinished {
        result: &'static str,
        took_ms: i64,
    },
    Failed(Box<Failure>),
    Item {
        status: &'static str,
    },
    /// Without a time it did not run (it was denied, rejected or skipped, or there is no such tool), or it failed at once.
    Tool {
        name: String,
        outcome: String,
        took_ms: Option<i64>,
    },
    Asked {
        kind: &'static str,
    },
    Answered {
        decision: &'static str,
    },
    Waited {
        kind: &'static str,
        decision: &'static str,
        ms: i64,
    },
    Recovered {
        what: &'static str,
    },
    Ruled {
        action: &'static str,
    },
    Used(Box<ModelUse>),
}

/// A failure for the log.
struct Failure {
    what: &'static str,
    code: String,
    cause: String,
    run: Option<FailedRun>,
    run_id: RunId,
    item: Option<ItemId>,
}

/// The run of a failure.
struct FailedRun {
    trace: String,
    provider: String,
    model: String,
}

impl Tally {
    /// `active` is the active run after the step.
    pub(super) fn of(step: &Step, active: Option<&Run>) -> Self {
        let mut tally = Self::default();
        let run = |id: &RunId| step.runs.iter().chain(active).find(|run| run.run_id == *id);
        for (at, record) in step.records.iter().enumerate() {
            tally.add_record(record, run(&record.run_id), &step.records[..at]);
            if let Fact::AgentResumed(body) = &record.fact {
                tally.add_wait(body, record, &step.rows);
            }
        }
        let used = step.rows.iter().filter(|row| row.kind == RowKind::Usage).filter_map(legible::<ModelUse>);
        tally.0.extend(used.map(|used| Count::Used(Box::new(used))));
        tally
    }

    /// Counts the tool calls that a recovery makes again: they ran `before` it, in an earlier attempt.
    pub(super) fn count_repeated_calls(&mut self, before: &[Effect], rows: &[Row]) {
        let calls = rows.iter().filter(|row| row.kind == RowKind::Call).filter_map(legible::<CallRecord>);
        let is_again = |record: &CallRecord| {
            before.iter().any(|effect| match effect {
                Effect::CallTool { call, attempt } => *call == record.call_id && *attempt < record.attempt,
                Effect::CallModel { .. }
                | Effect::Delegate { .. }
                | Effect::AskPeer { .. }
                | Effect::CancelPeer { .. } => false,
            })
        };
        self.0.extend(calls.filter(is_again).map(|_| Count::Recovered { what: "tool" }));
    }

    fn add_record(&mut self, record: &Record, run: Option<&Run>, before: &[Record]) {
        match &record.fact {
            Fact::RunStarted(_) => {
                let waited_ms = run.map_or(0, |run| run.started_at.unwrap_or(run.created_at) - run.created_at);
                self.0.push(Count::RunStarted { waited_ms });
            }
            Fact::RunFinished(body) => self.add_run_end(record, body, run),
            Fact::ItemStatusChange(body) => self.add_item(record, body, run, before),
            Fact::ToolExecution(body) => {
                let code = body.error.as_ref().map(|error| error.code.as_str());
                let outcome = code.unwrap_or(body.status.as_str()).to_owned();
                let has_run = body.status == ToolStatus::Success || body.executed.is_some() || body.duration_ms > 0;
                let took_ms = has_run.then_some(body.duration_ms);
                self.0.push(Count::Tool { name: body.tool_name.clone(), outcome, took_ms });
            }
            Fact::AgentSuspended(body) => {
                self.0.push(Count::Asked { kind: body.kind.as_str() });
                if body.kind == SuspensionKind::InDoubt && body.remote.is_none() {
                    self.0.push(Count::Recovered { what: "in_doubt" });
                }
            }
            // A call that was stopped with its run is not made again.
            Fact::LlmStreamError(body) if body.code == FailureKind::Interrupted && body.retryable => {
                self.0.push(Count::Recovered { what: "model" });
            }
            Fact::AgentResumed(body) => self.0.push(Count::Answered { decision: body.decision.as_str() }),
            // A reminder leaves the question open.
            Fact::SuspensionTimeout(body) if body.policy != ExpiryPolicy::Remind => {
                self.0.push(Count::Answered { decision: Decision::Expired.as_str() });
            }
            Fact::SuspensionTimeout(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamError(_)
            | Fact::Thoughts(_)
            | Fact::ToolCall(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_)
            | Fact::FinalResponse(_)
            | Fact::Error(_) => {}
        }
        let ruling = record.metadata.as_ref().and_then(|metadata| metadata.policy.as_ref());
        // A ruling that asks a person was counted with the question.
        let is_again =
            |ruling: &&Ruling| record.kind() == ObservationType::ToolExecution && ruling.action == PolicyAction::Ask;
        let ruling = ruling.filter(|ruling| !is_again(ruling));
        self.0.extend(ruling.map(|ruling| Count::Ruled { action: ruling.action.as_str() }));
    }

    /// How long a question waited for its answer.
    fn add_wait(&mut self, body: &AgentResumedBody, record: &Record, rows: &[Row]) {
        let row = rows.iter().find(|row| row.kind == RowKind::Suspension && row.id == body.suspension_id.as_str());
        if let Some(question) = row.and_then(legible::<Suspension>) {
            let ms = record.timestamp - question.created_at;
            self.0.push(Count::Waited { kind: question.kind.as_str(), decision: body.decision.as_str(), ms });
        }
    }

    fn add_run_end(&mut self, record: &Record, body: &RunFinishedBody, run: Option<&Run>) {
        let outcome = run.and_then(|run| run.outcome.as_ref());
        let result = match (run.map(|run| run.status), outcome.map(|outcome| outcome.status)) {
            (Some(RunStatus::Cancelled), _) => "cancelled",
            (Some(RunStatus::Failed), _) | (_, Some(ResultStatus::Error)) => "error",
            (_, Some(ResultStatus::Partial)) => "partial",
            (_, Some(ResultStatus::Success) | None) => "success",
        };
        self.0.push(Count::RunFinished { result, took_ms: body.total_duration_ms });
        if result == "error" {
            let error = outcome.and_then(|outcome| outcome.error.as_ref());
            let code = error.map_or("", |error| error.code.as_str()).to_owned();
            let cause = error.map(|error| error.message.clone()).unwrap_or_default();
            self.add_failure("a run failed", record, run, code, cause);
        }
    }

    fn add_item(&mut self, record: &Record, body: &ItemStatusChangeBody, run: Option<&Run>, before: &[Record]) {
        if body.status == ItemStatus::Failed {
            let its = before.iter().rev().filter(|earlier| earlier.parent_id == record.parent_id);
            let error = its.filter_map(|earlier| error_of(&earlier.fact)).next();
            let code = error.map(|error| error.code.clone()).unwrap_or_default();
            let cause = error.map(|error| error.message.clone()).or(body.reason.clone()).unwrap_or_default();
            self.add_failure("an item failed", record, run, code, cause);
        }
        if body.status.is_settled() {
            self.0.push(Count::Item { status: body.status.as_str() });
        }
    }

    fn add_failure(&mut self, what: &'static str, record: &Record, run: Option<&Run>, code: String, cause: String) {
        let run = run.map(|run| FailedRun {
            trace: run.trace_id.clone(),
            provider: run.settings.provider.clone(),
            model: run.settings.model.clone(),
        });
        let (run_id, item) = (record.run_id.clone(), record.parent_id.clone());
        self.0.push(Count::Failed(Box::new(Failure { what, code, cause, run, run_id, item })));
    }

    /// Emits the metrics and log lines. Called after the commit.
    pub(super) async fn emit(self, shared: &Shared, thread: &str) {
        for count in self.0 {
            count.emit(shared, thread).await;
        }
    }
}

fn error_of(fact: &Fact) -> Option<&ErrorBody> {
    if let Fact::Error(error) = fact { Some(error) } else { None }
}

impl Count {
    async fn emit(self, shared: &Shared, thread: &str) {
        let seconds = |ms: i64| ms.max(0) as f64 / 1000.0;
        match self {
            Count::RunStarted { waited_ms } => {
                counter!("pes_runs_started_total").increment(1);
                histogram!("pes_run_queue_wait_seconds").record(seconds(waited_ms));
            }
            Count::RunFinished { result, took_ms } => {
                counter!("pes_runs_finished_total", "result" => result).increment(1);
                histogram!("pes_run_duration_seconds", "result" => result).record(seconds(took_ms));
            }
            Count::Failed(failure) => failure.log(thread),
            Count::Item { status } => counter!("pes_items_finished_total", "status" => status).increment(1),
            Count::Tool { name, outcome, took_ms } => {
                let is_operators = shared.tools.toolset(TenantPk::NONE).await.get(&name).is_some();
                let name = if is_operators { name } else { "tenant".to_owned() };
                counter!("pes_tool_calls_total", "tool" => name.clone(), "outcome" => outcome_label(&outcome))
                    .increment(1);
                if let Some(took_ms) = took_ms {
                    histogram!("pes_tool_call_duration_seconds", "tool" => name).record(seconds(took_ms));
                }
            }
            Count::Asked { kind } => counter!("pes_suspensions_total", "kind" => kind).increment(1),
            Count::Answered { decision } => {
                counter!("pes_suspensions_answered_total", "decision" => decision).increment(1);
            }
            Count::Waited { kind, decision, ms } => {
                let labels = [("kind", kind), ("decision", decision)];
                histogram!("pes_suspension_wait_seconds", &labels).record(seconds(ms));
            }
            Count::Recovered { what } => counter!("pes_recovered_total", "what" => what).increment(1),
            Count::Ruled { action } => counter!("pes_policy_decisions_total", "action" => action).increment(1),
            Count::Used(used) => shared.models.meters.record_usage(&used),
        }
    }
}

/// The outcome as a label. Every label is a time series of each tool: `other` stands for the codes that a tool chose, and
/// for those of the server's own that only calls of few kinds can have.
fn outcome_label(outcome: &str) -> &'static str {
    const CODES: [CallCode; 12] = [
        CallCode::UnknownTool,
        CallCode::DisabledTool,
        CallCode::InvalidArguments,
        CallCode::Denied,
        CallCode::Rejected,
        CallCode::Timeout,
        CallCode::Panicked,
        CallCode::OutputTooLarge,
        CallCode::Unknown,
        CallCode::Failed,
        CallCode::Unavailable,
        CallCode::ApprovalMismatch,
    ];
    let statuses = [ToolStatus::Success, ToolStatus::Error].map(ToolStatus::as_str);
    let mut labels = statuses.into_iter().chain(CODES.map(CallCode::as_str));
    labels.find(|label| *label == outcome).unwrap_or("other")
}

impl Failure {
    fn log(&self, thread: &str) {
        let (run, cause) = (self.run.as_ref(), one_line(&self.cause, MAX_CAUSE_CHARS));
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
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
                )
            };
        }
        // A rejection by a person or a rule is normal.
        if self.code == CallCode::Rejected.as_str() {
            line!(info);
        } else {
            line!(warn);
        }
    }
}

/// At most `max_chars` characters, in one line.
fn one_line(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
