//! A run as lines, one for each change, for pipes and logs. Each begins with the number of the observation.

use serde::Deserialize as _;

use super::events::ObservationFrame;
use super::plan_view::{doubt, rule, subject};
use super::replay::Base;
use super::show::{self, cut, line};
use crate::domain::facts::{Fact, PlanSource, WholePlan, WholePlanUpdate};
use crate::domain::hitl::ExpiryPolicy;
use crate::domain::observation::ObservationType;
use crate::domain::plan::ItemStatus;
use crate::domain::word_of;

/// The longest text in a line.
const WORDS: usize = 200;

/// `None`: the observation changes nothing that is shown.
pub(super) fn line_of(frame: &ObservationFrame) -> Option<String> {
    let item = frame.parent_id.as_ref().map(|id| line(id.as_str())).unwrap_or_else(|| "run".to_owned());
    let said = match ObservationType::parse(&frame.kind)? {
        ObservationType::Plan => plan(&WholePlan::deserialize(&frame.content).ok()?)?,
        ObservationType::PlanUpdate => update(&WholePlanUpdate::deserialize(&frame.content).ok()?)?,
        kind => of_fact(&Fact::read(kind, &frame.content).ok()?, &item, frame)?,
    };
    Some(format!("{} {}", frame.seq, cut(&line(&said), 4 * WORDS)))
}

/// The plan at the beginning of the log, as lines like those of live changes.
pub(super) fn lines_of_base(base: &Base) -> Vec<String> {
    let Base { todo_list: items, plan_version, last_seq, .. } = base;
    if items.is_empty() {
        return Vec::new();
    }
    let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
    let plan = format!("plan version={plan_version} items={}", ids.join(","));
    let moved = items.iter().filter(|item| item.status != ItemStatus::Pending);
    let moved = moved.map(|item| format!("{} {}", item.id.as_str(), item.status.as_str()));
    std::iter::once(plan).chain(moved).map(|said| format!("{last_seq} {}", cut(&line(&said), 4 * WORDS))).collect()
}

/// A duration as one word.
fn span(ms: i64) -> String {
    show::span(ms).replace(' ', "")
}

/// `None`: the model answered without a plan.
fn plan(plan: &WholePlan) -> Option<String> {
    let ids: Vec<&str> = plan.todo_list.iter().map(|item| item.id.as_str()).collect();
    (!ids.is_empty()).then(|| format!("plan version={} items={}", plan.plan_version, ids.join(",")))
}

fn update(update: &WholePlanUpdate) -> Option<String> {
    let changes = &update.changes.changes;
    let changes = changes.iter().map(|change| format!("{}:{}", word_of(&change.kind), change.item_id.as_str()));
    let changes: Vec<String> = changes.collect();
    // The planner's own list is already in its plan observation.
    let is_news = update.source != PlanSource::Planner && !changes.is_empty();
    is_news.then(|| format!("plan version={} {}", update.plan_version, changes.join(" ")))
}

fn of_fact(fact: &Fact, item: &str, frame: &ObservationFrame) -> Option<String> {
    Some(match fact {
        Fact::RunStarted(body) => {
            let query = body.query.as_str().unwrap_or_default();
            // If the caller named no thread, only this line shows its id.
            let thread = frame.thread_id.as_str();
            format!("run started thread={thread} model={}:{} query={}", body.provider, body.model, cut(query, WORDS))
        }
        Fact::Title(body) => format!("title {}", body.title),
        Fact::ItemStatusChange(body) => {
            let why = body.reason.as_ref().map(|why| format!(" reason={}", cut(why, WORDS))).unwrap_or_default();
            format!("{} {}{why}", body.item_id.as_str(), body.status.as_str())
        }
        Fact::ToolCall(body) => {
            let names: Vec<&str> = body.tool_calls.iter().map(|call| call.tool_name.as_str()).collect();
            format!("{item} calls {}", names.join(","))
        }
        Fact::ToolExecution(body) => {
            let failed = body.error.as_ref().map(|error| format!(" error={}", error.code.as_str()));
            let took = span(body.duration_ms);
            format!("{item} called {} took={took}{}", body.tool_name, failed.unwrap_or_default())
        }
        Fact::LlmStreamError(body) => {
            let again = body.retry_in_ms.map(|ms| format!(" again_in={}", span(ms))).unwrap_or_default();
            let code = word_of(&body.code);
            format!("{item} model error={code} {}{again}", cut(&body.message, WORDS))
        }
        Fact::AgentSuspended(asked) => {
            let doubt = doubt(asked).map(|doubt| format!(": {doubt}"));
            let why = doubt.or_else(|| Some(format!(" rule={}", rule(asked)?))).unwrap_or_default();
            let left =
                asked.expires_at.map(|at| format!(" expires={}", span(at - frame.timestamp))).unwrap_or_default();
            format!("{item} asks {}{why}{left} id={}", subject(asked), asked.suspension_id.as_str())
        }
        Fact::AgentResumed(body) => {
            format!("{item} {} by={} id={}", body.decision.as_str(), body.decided_by, body.suspension_id.as_str())
        }
        Fact::SuspensionTimeout(body) => {
            let word = match body.policy {
                ExpiryPolicy::Remind => "reminds",
                ExpiryPolicy::Deny | ExpiryPolicy::Fail => "expired",
            };
            format!("{item} {word} id={}", body.suspension_id.as_str())
        }
        Fact::A2aTask(body) => {
            format!("{item} agent={} {} task={}", body.agent_id, body.status.as_str(), body.task_id.as_str())
        }
        Fact::Error(body) => format!("{item} error={} {}", body.code, cut(&body.message, WORDS)),
        Fact::RunFinished(body) => {
            let cost = body.cost_usd.map(|cost| format!(" cost=${cost:.4}")).unwrap_or_default();
            let (calls, took) = (body.llm_calls, span(body.total_duration_ms));
            format!("run {} model_calls={calls} tool_calls={} took={took}{cost}", body.status.as_str(), body.tool_calls)
        }
        Fact::Intent(_)
        | Fact::Plan(_)
        | Fact::PlanUpdate(_)
        | Fact::LlmStreamStart(_)
        | Fact::LlmStreamMetadata(_)
        | Fact::LlmStreamEnd(_)
        | Fact::Thoughts(_)
        | Fact::StateUpdate(_)
        | Fact::Synthesis(_)
        | Fact::FinalResponse(_) => return None,
    })
}
