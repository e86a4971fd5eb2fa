//! What a call may take of the run's budget. Before a call starts, what it may take is reserved, with what the calls under
//! way may take; what it took is counted when it is answered. A call that does not fit waits for those under way, which
//! mostly take less than was reserved; if it does not fit then, the budget is spent.

use crate::World;
use crate::domain::Millis;
use crate::domain::model::Usage;
use crate::domain::settings::Budget;
use crate::domain::size::tokens;
use crate::domain::usage::nanos;
use crate::pes::state::{ModelCall, Reserved, State};

/// A reply that may be no longer than this is not worth asking for.
const LEAST_OUTPUT: u64 = 256;
/// A reply whose length nobody bounded.
const USUAL_OUTPUT: u64 = 4_096;
/// The fixed text of a prompt, around its contents.
const WORDING: u64 = 800;
const TIME: &str = "its time is over";
const CALLS: &str = "its model calls are used up";
const TOKENS: &str = "its tokens are used up";
const MONEY: &str = "its money is used up";

/// Whether a call may be paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Funds {
    /// `None`: there is no bound to keep.
    Enough(Option<Reserved>),
    /// Perhaps, when what runs has ended.
    Wait,
    Spent(&'static str),
}

impl State {
    /// When the budget's time is used up: the run must be over. `None` also while a person is asked about that.
    pub(crate) fn budget_deadline(&self) -> Option<Millis> {
        let (run, active) = (self.run.as_ref()?, self.head.active.as_ref()?);
        let after = run.settings.budget.as_ref()?.deadline_ms?;
        let until = run.started_at.unwrap_or(run.created_at).saturating_add(after);
        active.asked.is_none().then(|| active.granted.until.unwrap_or(until))
    }
}

/// What this call may take, with what the calls under way may take.
pub(crate) fn for_call(state: &State, world: &World<'_>, call: &ModelCall) -> Funds {
    let Some(budget) = &state.run_settings().budget else { return Funds::Enough(None) };
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
    let settings = state.run_settings();
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
pub(crate) fn is_spent(state: &State, world: &World<'_>, now: Millis) -> bool {
    let is_settled = state.head.active.as_ref().is_none_or(|it| it.asked.is_some() || it.cancel.is_some());
    !is_settled && spent(state, world, now).is_some()
}

/// What of the budget is spent, in words.
pub(crate) fn spent(state: &State, world: &World<'_>, now: Millis) -> Option<&'static str> {
    if state.budget_deadline().is_some_and(|at| at <= now) {
        return Some(TIME);
    }
    let main = state.head.active.as_ref().and_then(|active| active.model.as_ref());
    let items = state.works().filter_map(|work| work.model.as_ref());
    let ready = main.into_iter().chain(items).filter(|call| !call.is_running());
    ready.into_iter().find_map(|call| match for_call(state, world, call) {
        Funds::Spent(why) => Some(why),
        Funds::Enough(_) | Funds::Wait => None,
    })
}
