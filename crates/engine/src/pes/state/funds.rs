//! What a model call may use of the run's budget and of the spending caps. Before a call starts, the most that it may
//! use is reserved, on top of what the calls in flight have reserved; what it really used is counted when it is
//! answered. A call that does not fit the budget waits for the calls in flight, which mostly use less than they
//! reserved; if it still does not fit when they have ended, the budget is spent. In the same way a call that does not
//! fit under a cap waits for the calls of other threads.

use std::ops::RangeInclusive;

use crate::domain::Millis;
use crate::domain::model::Usage;
use crate::domain::settings::{Budget, RunSettings};
use crate::domain::tokens;
use crate::domain::usage::{Nanos, Price, nanos, usd};
use crate::pes::state::{ModelCall, Reserved, RunPhase, Shape, State};
use crate::{Allowance, CapRoom, ModelBook, Remaining, Reservation, Toolbox, World};

/// A shorter reply, in tokens, is not worth asking for.
const MIN_OUTPUT_TOKENS: u64 = 256;
/// The assumed length of a reply without thinking, in tokens, if the settings do not bound it.
const DEFAULT_OUTPUT_TOKENS: u64 = 4_096;
/// No reply is longer, whatever a request says: a larger number could overflow sums.
const MAX_OUTPUT_TOKENS: u64 = 10_000_000;
/// The tokens of a prompt's fixed text, around its contents.
const FIXED_TEXT_TOKENS: u64 = 800;

/// Whether a call may be paid for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Funds {
    /// It may start. `None`: there is no bound to keep.
    Enough(Option<Reserved>),
    /// It may fit when the calls in flight have ended.
    Wait,
    /// It may fit at that time: calls of other threads have reserved more than they may need.
    Later(Millis),
    Spent(Spent),
}

/// Why a call cannot be paid for, in words for people.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spent {
    /// The run's budget is used up.
    Budget(String),
    /// A spending cap is reached.
    Cap(String),
}

impl Spent {
    pub(crate) fn why(&self) -> &str {
        match self {
            Spent::Budget(why) => why,
            Spent::Cap(why) => why,
        }
    }
}

/// What a call has too little of.
enum Shortage<'a> {
    Budget(String),
    Room(&'a Remaining),
}

impl State {
    /// When the budget's time is used up and the run must end. `None` also while a person is asked to extend the
    /// budget.
    pub(crate) fn budget_deadline(&self) -> Option<Millis> {
        let is_asked = self.head.active.as_ref()?.budget_question.is_some();
        self.budget_end().filter(|_| !is_asked)
    }

    /// When the time of the active run's budget ends, with what people added.
    pub(crate) fn budget_end(&self) -> Option<Millis> {
        let (run, active) = (self.run.as_ref()?, self.head.active.as_ref()?);
        let after = run.settings.budget.as_ref()?.deadline_ms?;
        let until = run.started_at.unwrap_or(run.created_at).saturating_add(after);
        Some(active.granted.until.unwrap_or(until))
    }

    /// The money that is left of the active run's budget, with what people added. What calls in flight have reserved is not
    /// deducted. `None`: the budget does not bound the money.
    pub(crate) fn budget_left(&self) -> Option<Nanos> {
        let spent = self.head.active.as_ref()?.counters.cost_nanos.unwrap_or(0);
        Some(self.budget_money()?.saturating_sub(spent))
    }

    /// The money of the active run's budget, with what people added. `None`: the budget does not bound the money.
    fn budget_money(&self) -> Option<Nanos> {
        let (run, active) = (self.run.as_ref()?, self.head.active.as_ref()?);
        Some(nanos(run.settings.budget.as_ref()?.max_cost_usd?).saturating_add(active.granted.cost))
    }

    /// Whether `synthesisParams` apply to this call, because its reply may be the answer: without a plan, any may.
    pub(crate) fn may_answer(&self, call: &ModelCall) -> bool {
        call.sums.is_none() && (self.phase() == RunPhase::Synthesizing || self.shape == Shape::Single)
    }
}

/// The length of a reply, in tokens, if it is not shortened: what the settings say, or the assumed length and at most
/// `room` for thinking.
fn whole_output(state: &State, settings: &RunSettings, call: &ModelCall, room: u64) -> u64 {
    let of_answer = state.may_answer(call).then_some(&settings.synthesis_params);
    let asked = |name: &str| of_answer.and_then(|params| params.get(name)).or_else(|| settings.llm_params.get(name));
    let effort = asked("reasoningEffort").and_then(|effort| effort.as_str());
    let length = asked("maxTokens").and_then(|length| length.as_u64());
    let thinking = effort.map_or(0, thinking_tokens).min(room);
    length.unwrap_or(DEFAULT_OUTPUT_TOKENS + thinking).min(MAX_OUTPUT_TOKENS)
}

/// How much thinking may add to a reply of the assumed length, in tokens: no more than the model can write, and than
/// fits beside a prompt that fills three quarters of the context window.
fn room_for_thinking(models: &dyn ModelBook, provider: &str, model: &str) -> u64 {
    let beside_prompt = models.window(provider, model).map(|window| window / 4);
    let longest = beside_prompt.into_iter().chain(models.max_output(provider, model)).min();
    longest.map_or(u64::MAX, |longest| longest.saturating_sub(DEFAULT_OUTPUT_TOKENS))
}

/// How much a model thinks at most, in tokens: providers count it as a part of the reply.
fn thinking_tokens(effort: &str) -> u64 {
    match effort {
        "none" => 0,
        "minimal" => 1_024,
        "low" => 4_096,
        "medium" => 10_240,
        "high" => 20_480,
        _ => 27_904,
    }
}

/// The least that the first call of a run on a new thread costs: with the shortest reply that is worth asking for.
pub fn least_cost(price: &Price, settings: &RunSettings, query: &str, tools: &dyn Toolbox) -> Nanos {
    cost(price, opening_estimate(settings, query, tools), MIN_OUTPUT_TOKENS)
}

/// The same in tokens.
pub fn least_tokens(settings: &RunSettings, query: &str, tools: &dyn Toolbox) -> i64 {
    to_i64(opening_estimate(settings, query, tools).saturating_add(MIN_OUTPUT_TOKENS))
}

fn to_i64(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// What the calls in flight have reserved under the spending caps.
pub(crate) fn reservations(state: &State) -> Vec<Reservation> {
    let Some(run) = &state.run else { return Vec::new() };
    let reservation = |call: &ModelCall| {
        let Reserved { cost, tokens, under, .. } = call.reserved?;
        let ((at, caps), tokens, key) = (under?, to_i64(tokens), run.payer().cloned());
        Some(Reservation { stream: call.stream()?.clone(), cost, tokens, at, caps, key })
    };
    state.model_calls_under_way().filter_map(reservation).collect()
}

/// Whether this call may start, given what the calls in flight have reserved.
pub(crate) fn for_call(state: &State, world: &World<'_>, call: &ModelCall) -> Funds {
    let budget = state.run_settings().budget.as_ref();
    if budget.is_none() && *world.allowance == Allowance::Uncapped {
        return Funds::Enough(None);
    }
    match reserve(state, world, budget.unwrap_or(&Budget::default()), call) {
        Ok(reserved) => Funds::Enough(reserved),
        Err(Shortage::Room(Remaining { again_at: Some(at), .. })) => Funds::Later(*at),
        Err(_) if state.is_any_running() => Funds::Wait,
        Err(Shortage::Budget(why)) => Funds::Spent(Spent::Budget(why)),
        Err(Shortage::Room(left)) => Funds::Spent(Spent::Cap(left.why.clone())),
    }
}

/// What this call reserves, with a reply as long as it may be. `None`: nothing bounds it.
fn reserve<'a>(
    state: &State,
    world: &World<'a>,
    budget: &Budget,
    call: &ModelCall,
) -> Result<Option<Reserved>, Shortage<'a>> {
    let (Some(run), Some(active)) = (&state.run, &state.head.active) else { return Ok(None) };
    let (counters, granted) = (&active.counters, &active.granted);
    if let Some(most) = budget.max_llm_calls {
        let calls = counters.llm_calls + state.model_calls_under_way().count() as u32;
        check_calls(calls, most.saturating_add(granted.calls))?;
    }
    if budget.max_tokens.is_none() && budget.max_cost_usd.is_none() && *world.allowance == Allowance::Uncapped {
        return Ok(None);
    }
    let held = state.model_calls_under_way().filter_map(|call| call.reserved);
    let add =
        |(tokens, cost): (u64, Nanos), it: Reserved| (tokens.saturating_add(it.tokens), cost.saturating_add(it.cost));
    let (held_tokens, held_cost) = held.fold((0, 0), add);
    let input = prompt_estimate(state, world);
    let (provider, model) = run.settings.choice(call.choice).unwrap_or_default();
    let room = room_for_thinking(world.models, provider, model);
    let mut output = whole_output(state, &run.settings, call, room);
    let least = MIN_OUTPUT_TOKENS.min(output);
    if let Some(most) = budget.max_tokens {
        let used = counters.usage.input_tokens.saturating_add(counters.usage.output_tokens).saturating_add(held_tokens);
        output = output_within_tokens(most.saturating_add(granted.tokens), used, input, least..=output)?;
    }
    let price = world.models.price(provider, model).unwrap_or_default();
    if let (Some(most), Some(left)) = (state.budget_money(), state.budget_left()) {
        let left = left.saturating_sub(held_cost);
        output = affordable_output(&price, input, least..=output, left).ok_or_else(|| {
            let (needed, left, most) = (usd(cost(&price, input, least)), usd(left), usd(most));
            Shortage::Budget(format!("the next model call costs at least ${needed}, and ${left} of ${most} are left"))
        })?;
    }
    match world.allowance {
        // First pass: the call asks for what it wants, and the store refuses the commit (`Capped`) if that does not
        // fit. Second pass: the decision is made again with `Allowance::Room`, and the reply is shortened here.
        Allowance::Uncapped | Allowance::Reserve(_) => {}
        Allowance::Room(_, room) => {
            output = output_within_caps(state, room, &price, input, least..=output)?;
        }
    }
    let (tokens, cost) = (input.saturating_add(output), cost(&price, input, output));
    Ok(Some(Reserved { tokens, cost, output, under: None }))
}

fn check_calls<'a>(calls: u32, most: u32) -> Result<(), Shortage<'a>> {
    if calls >= most {
        return Err(Shortage::Budget(format!("its model calls are used up ({calls} of {most})")));
    }
    Ok(())
}

/// How long a reply may be so that the call fits the tokens of the budget, of which `used` are gone.
fn output_within_tokens<'a>(
    most: u64,
    used: u64,
    input: u64,
    lengths: RangeInclusive<u64>,
) -> Result<u64, Shortage<'a>> {
    let (least, longest) = lengths.into_inner();
    let left = most.saturating_sub(used);
    let output = longest.min(left.saturating_sub(input));
    if output < least {
        let needed = input.saturating_add(least);
        let why = format!("the next model call needs at least {needed} tokens, and {left} of {most} are left");
        return Err(Shortage::Budget(why));
    }
    Ok(output)
}

/// How long a reply may be so that the caps have room for it beside the calls in flight. It is shortened only where no
/// more room can become free.
fn output_within_caps<'a>(
    state: &State,
    room: &'a CapRoom,
    price: &Price,
    input: u64,
    lengths: RangeInclusive<u64>,
) -> Result<u64, Shortage<'a>> {
    let (shortest, mut output) = lengths.into_inner();
    let least = |left: &Remaining, output: u64| if left.again_at.is_some() { output } else { shortest.min(output) };
    let held = reservations(state);
    let without = |most: i64, of: fn(&Reservation) -> i64| held.iter().map(of).fold(most, i64::saturating_sub);
    let tokens = without(room.tokens.most, |reserved| reserved.tokens);
    let tokens = u64::try_from(tokens).unwrap_or(0).saturating_sub(input);
    if tokens < least(&room.tokens, output) {
        return Err(Shortage::Room(&room.tokens));
    }
    output = output.min(tokens);
    let cost = without(room.cost.most, |reserved| reserved.cost);
    let least = least(&room.cost, output);
    affordable_output(price, input, least..=output, cost).ok_or(Shortage::Room(&room.cost))
}

/// How long a reply may be that costs at most `left`; `None`: even the shortest one costs more.
fn affordable_output(price: &Price, input: u64, lengths: RangeInclusive<u64>, left: Nanos) -> Option<u64> {
    let (least, most) = lengths.into_inner();
    if cost(price, input, least) > left {
        return None;
    }
    // A dollar per million tokens is a thousand nanos per token.
    let per_token = price.output_per_million.max(price.thinking_per_million.unwrap_or(0.0)) * 1_000.0;
    let paid = (left.saturating_sub(cost(price, input, 0)).max(0) as f64 / per_token) as u64;
    Some(if per_token > 0.0 { most.min(paid).max(least) } else { most })
}

/// The most that a call can cost: any of its output may be thinking.
fn cost(price: &Price, input: u64, output: u64) -> Nanos {
    let of = |thinking| {
        price.of(&Usage { input_tokens: input, output_tokens: output, thinking_tokens: thinking, ..Usage::default() })
    };
    of(0).max(of(output))
}

/// The estimated size of the next prompt, in tokens: computed from the state, but not less than the largest prompt so
/// far with its reply.
fn prompt_estimate(state: &State, world: &World<'_>) -> u64 {
    let settings = state.run_settings();
    let steers = state.head.active.as_ref().map_or(0, |active| active.steers.len() as u64 * FIXED_TEXT_TOKENS);
    let history = if settings.history_limit == 0 { 0 } else { state.head.history_bytes / 3 };
    let items: u64 = state.list.iter().map(|item| tokens::of_text(&item.def.description)).sum();
    let largest = state.head.active.as_ref().map_or(0, |active| active.largest);
    let opening = opening_estimate(settings, &state.active_run().query, world.tools);
    (opening + steers + history + items).max(largest)
}

/// The part that every prompt of a run has.
fn opening_estimate(settings: &RunSettings, query: &str, tools: &dyn Toolbox) -> u64 {
    let tools = tools.offered(settings);
    let tools: u64 =
        tools.iter().map(|tool| tokens::of_text(&tool.description) + tokens::of_json(&tool.input_schema)).sum();
    tokens::of_text(&settings.system_prompt) + tokens::of_text(query) + tools + FIXED_TEXT_TOKENS
}

/// Whether time is up, or the next call cannot be paid for.
pub(crate) fn is_spent(state: &State, world: &World<'_>, now: Millis) -> bool {
    let is_settled = state.head.active.as_ref().is_none_or(|it| it.budget_question.is_some() || it.cancel.is_some());
    !is_settled && why_spent(state, world, now).is_some()
}

/// What of the budget is spent, or which cap is reached.
pub(crate) fn why_spent(state: &State, world: &World<'_>, now: Millis) -> Option<Spent> {
    if state.budget_deadline().is_some_and(|at| at <= now) {
        return Some(Spent::Budget("its time is over".to_owned()));
    }
    let mut ready = state.model_calls().filter(|call| !call.is_running());
    ready.find_map(|call| match for_call(state, world, call) {
        Funds::Spent(spent) => Some(spent),
        Funds::Enough(_) | Funds::Wait | Funds::Later(_) => None,
    })
}
