//! The expected cost of the unfinished items of a plan, from the cost of past items of runs with the same model.

use std::collections::BTreeMap;

use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::expected_cost::{CostBasis, ExpectedCost};
use crate::domain::forecast::PlanForecast;
use crate::domain::ids::{ItemId, RunId};
use crate::domain::settings::RunSettings;
use crate::domain::usage::{ModelUse, Nanos, usd};
use crate::service::{Result, Service};

const DAYS: u32 = 30;
const DAY_MS: Millis = 86_400_000;
/// How many past calls are read, the latest first.
const MAX_CALLS: u32 = 2_000;

/// `settings` are those of the run that works on the plan, or of the next run, and `left` is what is left of its budget.
pub(super) async fn expected(
    service: &Service,
    caller: &Caller,
    plan: &PlanForecast,
    settings: &RunSettings,
    left: Option<Nanos>,
) -> Result<ExpectedCost> {
    let items = plan.items.iter().filter(|item| !item.status.is_settled()).count() as u64;
    let from = service.now() - Millis::from(DAYS) * DAY_MS;
    let calls = service.reads.latest_calls(caller.tenant, from, MAX_CALLS).await?;
    let past = PastCalls { are_older: calls.len() == MAX_CALLS as usize, calls };
    let (basis, tenths) = past.of_model(&settings.provider, &settings.model);
    let times = |cost: Nanos| usd(cost.saturating_mul(items as i64));
    Ok(ExpectedCost {
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        items,
        low_usd: tenths.map(|(low, _)| times(low)),
        high_usd: tenths.map(|(_, high)| times(high)),
        at_most_usd: left.map(|left| usd(left.max(0))),
        basis,
    })
}

/// Past model calls.
struct PastCalls {
    /// Newest first.
    calls: Vec<ModelUse>,
    /// There are older calls that were not read; they may belong to the same runs.
    are_older: bool,
}

/// What is known of a past run.
#[derive(Default)]
struct PastRun<'a> {
    /// It called another model, too.
    has_other_models: bool,
    /// Its oldest known call belongs to an item.
    begins_with_item: bool,
    items: BTreeMap<&'a ItemId, PastItem>,
}

#[derive(Default)]
struct PastItem {
    calls: u64,
    cost: Nanos,
    /// One of its calls has no price.
    is_unpriced: bool,
}

impl PastCalls {
    /// The items of runs that called only this model, with the first and the last decile of their costs.
    fn of_model(&self, provider: &str, model: &str) -> (CostBasis, Option<(Nanos, Nanos)>) {
        let runs = self.runs(provider, model);
        // A run begins with a call for its plan. If its first known call belongs to an item, older calls of it may be
        // missing.
        let is_whole = |run: &&PastRun<'_>| !(self.are_older && run.begins_with_item);
        let counted = runs.values().filter(|run| !run.has_other_models).filter(is_whole);
        let items = counted.flat_map(|run| run.items.values());
        let (unpriced, priced): (Vec<&PastItem>, Vec<&PastItem>) = items.partition(|item| item.is_unpriced);
        let mut costs: Vec<Nanos> = priced.iter().map(|item| item.cost).collect();
        costs.sort_unstable();
        let basis = CostBasis {
            days: DAYS,
            items: priced.len() as u64,
            calls: priced.iter().map(|item| item.calls).sum(),
            unpriced_items: unpriced.len() as u64,
        };
        let at = |tenths: usize| costs.get((costs.len() * tenths / 10).min(costs.len().saturating_sub(1))).copied();
        (basis, at(1).zip(at(9)))
    }

    fn runs(&self, provider: &str, model: &str) -> BTreeMap<&RunId, PastRun<'_>> {
        let mut runs: BTreeMap<&RunId, PastRun<'_>> = BTreeMap::new();
        for call in &self.calls {
            let run = runs.entry(&call.run).or_default();
            run.has_other_models |= (call.provider.as_str(), call.model.as_str()) != (provider, model);
            run.begins_with_item = call.item.is_some();
            let Some(item) = &call.item else { continue };
            let item = run.items.entry(item).or_default();
            item.calls += 1;
            item.cost += call.cost_nanos.unwrap_or_default();
            item.is_unpriced |= call.cost_nanos.is_none();
        }
        runs
    }
}

#[cfg(test)]
mod tests;
