//! The run's budget is spent, or a spending cap is reached: a person is asked, or the run ends.

use crate::domain::hitl::{FeedbackSchema, InputType, SuspensionKind};
use crate::domain::settings::{Budget, OnBudget};
use crate::domain::usage::nanos;
use crate::pes::people::suspend;
use crate::pes::run::end_early;
use crate::pes::state::EarlyEnd;
use crate::pes::state::funds::{self, Spent};
use crate::pes::tx::Tx;

/// Asks a person, or ends the run; the lease holder stops its effects first.
pub(crate) fn on_spent(tx: &mut Tx<'_>) {
    let spent =
        funds::why_spent(tx.state, tx.world, tx.stamp.now).unwrap_or_else(|| Spent::Budget("it is spent".to_owned()));
    match (tx.state.run_settings().execution.on_budget, &spent) {
        (OnBudget::Ask, Spent::Budget(why)) => ask_for_more(tx, why),
        (OnBudget::Ask, Spent::Cap(why)) => ask_about_cap(tx, why),
        (OnBudget::Stop, _) => end_early::end_early(tx, EarlyEnd::OnBudget, spent.why()),
    }
}

/// The question was answered with no, or has expired.
pub(crate) fn refuse_more(tx: &mut Tx<'_>, why: &str) {
    tx.active().budget_question = None;
    end_early::end_early(tx, EarlyEnd::OnBudget, why);
}

fn ask_for_more(tx: &mut Tx<'_>, why: &str) {
    let of = |kind: &str| serde_json::json!({ "type": kind, "exclusiveMinimum": 0 });
    let (whole, money) = (of("integer"), of("number"));
    let prompt = "Extend the budget? Without a value as much is added as there was.";
    let schema = FeedbackSchema {
        custom_schema: Some(serde_json::json!({
            "type": "object", "additionalProperties": false,
            "properties": { "maxTokens": whole, "maxCostUsd": money, "maxLlmCalls": whole, "deadlineMs": whole },
        })),
        ..FeedbackSchema::new(InputType::Custom, prompt)
    };
    ask(tx, format!("The run's budget is spent: {why}."), schema);
}

/// A cap is raised or renewed elsewhere: the answer adds nothing, so the question has no form.
fn ask_about_cap(tx: &mut Tx<'_>, why: &str) {
    let prompt = "A cap is reached; go on, once it has been raised or renewed? A no ends the run.";
    let schema = FeedbackSchema::new(InputType::Confirm, prompt);
    ask(tx, format!("The run cannot go on: {why}."), schema);
}

fn ask(tx: &mut Tx<'_>, message: String, schema: FeedbackSchema) {
    let question = suspend::question(tx, SuspensionKind::Budget, message, schema);
    tx.active().budget_question = Some(question.suspension_id.clone());
    suspend::open(tx, question);
}

/// Extends the budget; the run continues.
pub(crate) fn extend(tx: &mut Tx<'_>, more: &Budget) {
    let (now, end) = (tx.stamp.now, tx.state.budget_end());
    let active = tx.active();
    active.budget_question = None;
    let granted = &mut active.granted;
    granted.tokens = granted.tokens.saturating_add(more.max_tokens.unwrap_or(0));
    granted.cost = granted.cost.saturating_add(nanos(more.max_cost_usd.unwrap_or(0.0)));
    granted.calls = granted.calls.saturating_add(more.max_llm_calls.unwrap_or(0));
    if let Some(after) = more.deadline_ms {
        // An answer about something else takes no time away.
        granted.until = Some(now.saturating_add(after)).max(end);
    }
}
