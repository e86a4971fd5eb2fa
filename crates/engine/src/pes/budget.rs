//! A run's budget. Before a call starts, what it may take is reserved, with what the calls under way may take; what it
//! took is counted when it is answered. A call that does not fit waits for those under way, which mostly take less than
//! was reserved; if it does not fit then, the budget is spent.

use super::state::State;
use super::{cancel, finish, suspend};
use serde::{Deserialize, Serialize};

use super::cancel::Ends;
use super::state::ModelCall;
use super::tx::Tx;
use crate::World;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType, SuspensionKind};
use crate::domain::model::{self, Usage};
use crate::domain::run::{ResultStatus, RunError};
use crate::domain::settings::{Budget, OnBudget};
use crate::domain::usage::{Nanos, nanos};
use crate::prompt::tokens;

/// A reply that may be no longer than this is not worth asking for.
const LEAST_OUTPUT: u64 = 256;
/// A reply whose length nobody bounded.
const USUAL_OUTPUT: u64 = 4_096;
/// What a prompt says around what it tells.
const WORDING: u64 = 800;

const TIME: &str = "its time is over";
const CALLS: &str = "its model calls are used up";
const TOKENS: &str = "its tokens are used up";
const MONEY: &str = "its money is used up";

/// What a call under way may take at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reserved {
    pub tokens: u64,
    pub cost: Nanos,
    /// How long its reply may be.
    pub output: u64,
}

/// What people added to the budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Granted {
    pub tokens: u64,
    pub cost: Nanos,
    pub calls: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

impl Granted {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a call may be paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Funds {
    /// `None`: there is no bound to keep.
    Enough(Option<Reserved>),
    /// Perhaps, when what runs has ended.
    Wait,
    Spent(&'static str),
}

pub(super) fn funds(state: &State, world: &World<'_>, call: &ModelCall) -> Funds {
    let Some(budget) = &state.settings().budget else { return Funds::Enough(None) };
    match reserve(state, world, budget, call) {
        Ok(reserved) => Funds::Enough(reserved),
        Err(_) if state.is_any_running() => Funds::Wait,
        Err(why) => Funds::Spent(why),
    }
}

fn reserve(
    state: &State,
    world: &World<'_>,
    budget: &Budget,
    call: &ModelCall,
) -> Result<Option<Reserved>, &'static str> {
    let (Some(run), Some(active)) = (&state.run, &state.head.active) else { return Ok(None) };
    let (counters, granted) = (&active.counters, &active.granted);
    let calls = counters.llm_calls + state.model_calls_under_way().count() as u32;
    if budget.max_llm_calls.is_some_and(|most| calls >= most.saturating_add(granted.calls)) {
        return Err(CALLS);
    }
    if budget.max_tokens.is_none() && budget.max_cost_usd.is_none() {
        return Ok(None);
    }
    let held = state.model_calls_under_way().filter_map(|call| call.reserved);
    let (held_tokens, held_cost) = held.fold((0, 0), |sum, it| (sum.0 + it.tokens, sum.1 + it.cost));
    let input = prompt_estimate(state, world);
    let mut output = run.settings.llm_params.get("maxTokens").and_then(|n| n.as_u64()).unwrap_or(USUAL_OUTPUT);
    let least = LEAST_OUTPUT.min(output);
    if let Some(most) = budget.max_tokens {
        let used = counters.usage.input_tokens + counters.usage.output_tokens + held_tokens;
        let left = most.saturating_add(granted.tokens).saturating_sub(used.saturating_add(input));
        output = output.min(left);
        if output < least {
            return Err(TOKENS);
        }
    }
    let (provider, model) = run.settings.choice(call.choice).unwrap_or_default();
    let price = world.models.price(provider, model).unwrap_or_default();
    let cost = |output: u64| price.of(&Usage { input_tokens: input, output_tokens: output, ..Usage::default() });
    if let Some(most) = budget.max_cost_usd {
        let left = nanos(most) + granted.cost - counters.cost_nanos.unwrap_or(0) - held_cost;
        if cost(least) > left {
            return Err(MONEY);
        }
        // A dollar per million tokens is a thousand nanos per token.
        let per_token = price.output_per_million.max(price.thinking_per_million.unwrap_or(0.0)) * 1_000.0;
        if per_token > 0.0 {
            output = output.min(((left - cost(0)).max(0) as f64 / per_token) as u64).max(least);
        }
    }
    Ok(Some(Reserved { tokens: input + output, cost: cost(output), output }))
}

/// How many tokens the next prompt may have: what the state says of it, and not less than the largest so far with its
/// reply.
fn prompt_estimate(state: &State, world: &World<'_>) -> u64 {
    let settings = state.settings();
    let steers = state.head.active.as_ref().map_or(0, |active| active.steers.len() as u64 * WORDING);
    let history = if settings.history_limit == 0 { 0 } else { state.head.said / 3 };
    let items: u64 = state.list.iter().map(|item| tokens(&item.def.description)).sum();
    let tools = world.tools.offered(settings);
    let tools: u64 = tools.iter().map(|tool| tokens(&tool.description) + tokens(&tool.input_schema.to_string())).sum();
    let known = tokens(&settings.system_prompt) + tokens(&state.active_run().query) + steers + history + items + tools;
    let largest = state.head.active.as_ref().map_or(0, |active| active.largest);
    (known + WORDING).max(largest)
}

/// Whether time is over, or a call would be next and cannot be paid for.
pub(super) fn is_spent(state: &State, world: &World<'_>, now: Millis) -> bool {
    let is_settled = state.head.active.as_ref().is_none_or(|it| it.asked.is_some() || it.cancel.is_some());
    !is_settled && spent(state, world, now).is_some()
}

/// What of the budget is spent, in words.
pub(super) fn spent(state: &State, world: &World<'_>, now: Millis) -> Option<&'static str> {
    if state.deadline().is_some_and(|at| at <= now) {
        return Some(TIME);
    }
    let main = state.head.active.as_ref().and_then(|active| active.model.as_ref());
    let items = state.works().filter_map(|work| work.model.as_ref());
    let ready = main.into_iter().chain(items).filter(|call| !call.is_running());
    ready.into_iter().find_map(|call| match funds(state, world, call) {
        Funds::Spent(why) => Some(why),
        Funds::Enough(_) | Funds::Wait => None,
    })
}

/// A person is asked for more, or the run ends; what runs of it is stopped first, by whoever holds it.
pub(super) fn on_spent(tx: &mut Tx<'_>) {
    let why = spent(tx.state, tx.world, tx.stamp.now).unwrap_or("it is spent");
    match tx.state.settings().execution.on_budget {
        OnBudget::Ask => ask_for_more(tx, why),
        OnBudget::Stop => cancel::end_early(tx, Ends::OnBudget, why),
    }
}

/// The question is answered, and the answer is no.
pub(super) fn refuse_more(tx: &mut Tx<'_>, why: &str) {
    tx.active().asked = None;
    cancel::end_early(tx, Ends::OnBudget, why);
}

/// The run ends with an account of what was done.
pub(super) fn end_on_budget(tx: &mut Tx<'_>, why: &str) {
    let message = format!("The run's budget ended it: {why}.");
    let phase = tx.state.model_phase(None);
    let phase = if tx.state.list.is_any_open() { model::Phase::Execution } else { phase };
    cancel::stop_everything(tx, "the run's budget is spent");
    tx.record_error(phase, Code::BudgetExceeded.as_str(), &message, true, None);
    let content = tx.state.account(&message);
    let id = format!("account-{}", tx.state.active_run().run_id);
    let shown = tx.store(id, serde_json::Value::String(content.clone()));
    let error = RunError { code: Code::BudgetExceeded, message, phase };
    finish::answer(tx, content, shown, None, ResultStatus::Partial, Some(error));
}

fn ask_for_more(tx: &mut Tx<'_>, why: &str) {
    let number = serde_json::json!({ "type": "number", "exclusiveMinimum": 0 });
    let schema = FeedbackSchema {
        input_type: InputType::Custom,
        prompt: "Extend the budget? Without a value as much is added as there was.".into(),
        options: Vec::new(),
        allow_modify_args: false,
        custom_schema: Some(serde_json::json!({
            "type": "object", "additionalProperties": false,
            "properties": { "maxTokens": number, "maxCostUsd": number, "maxLlmCalls": number, "deadlineMs": number },
        })),
    };
    let question = suspend::question(tx, SuspensionKind::Budget, format!("The run's budget is spent: {why}."), schema);
    tx.active().asked = Some(question.suspension_id.clone());
    suspend::open(tx, question);
}

/// What an answer adds; a bare yes adds what the run began with.
pub(super) fn extension(state: &State, value: Option<serde_json::Value>) -> Result<Budget, Fault> {
    let Some(value) = value else { return Ok(state.settings().budget.clone().unwrap_or_default()) };
    let wrong = |why: String| Fault::new(Code::Invalid, "The answer does not fit the question.").at("/value", why);
    let more: Budget = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    more.check("/value")?;
    Ok(more)
}

pub(super) fn extend(tx: &mut Tx<'_>, more: &Budget) {
    let now = tx.stamp.now;
    let active = tx.active();
    active.asked = None;
    let granted = &mut active.granted;
    granted.tokens = granted.tokens.saturating_add(more.max_tokens.unwrap_or(0));
    granted.cost = granted.cost.saturating_add(nanos(more.max_cost_usd.unwrap_or(0.0)));
    granted.calls = granted.calls.saturating_add(more.max_llm_calls.unwrap_or(0));
    granted.until = more.deadline_ms.map(|after| now.saturating_add(after)).or(granted.until);
}

impl State {
    fn model_calls_under_way(&self) -> impl Iterator<Item = &ModelCall> {
        let main = self.head.active.as_ref().and_then(|active| active.model.as_ref());
        let items = self.works().filter_map(|work| work.model.as_ref());
        main.into_iter().chain(items).filter(|call| call.is_running())
    }

    /// When the run must be over. While a person is asked about that, nothing is due.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let (run, active) = (self.run.as_ref()?, self.head.active.as_ref()?);
        let after = run.settings.budget.as_ref()?.deadline_ms?;
        let until = run.started_at.unwrap_or(run.created_at).saturating_add(after);
        active.asked.is_none().then(|| active.granted.until.unwrap_or(until))
    }
}
