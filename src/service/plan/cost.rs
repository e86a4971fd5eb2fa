//! What the items of a plan that are left may cost: by what items of runs with the same model took.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::expected_cost::{CostBasis, ExpectedCost};
use crate::domain::forecast::PlanForecast;
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::usage::{Nanos, UsageGroup, UsageSum, nanos, usd};
use crate::service::{Result, Service, usage};
use crate::store::{Page, PageAsk};

const DAYS: u32 = 30;
const DAY_MS: Millis = 86_400_000;
/// So many past items are looked at.
const MOST: u32 = 1_000;

/// `active` is the run that works at the plan; without one the next run has these settings.
pub(super) async fn expected(
    service: &Service,
    caller: &Caller,
    plan: &PlanForecast,
    active: Option<&Run>,
    next: &RunSettings,
) -> Result<ExpectedCost> {
    let settings = active.map_or(next, |run| &run.settings);
    let items = plan.items.iter().filter(|item| !item.status.is_settled()).count() as u64;
    let past = Past {
        models: read(service, caller, UsageGroup::RunModel).await?,
        items: read(service, caller, UsageGroup::Item).await?,
    };
    let (basis, tenths) = past.of_model(&format!("{}:{}", settings.provider, settings.model));
    let times = |cost: Nanos| usd(cost.saturating_mul(items as i64));
    let spent = active.and_then(|run| run.counters.cost_nanos).unwrap_or_default();
    let budget = settings.budget.as_ref().and_then(|budget| budget.max_cost_usd);
    Ok(ExpectedCost {
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        items,
        low_usd: tenths.map(|(low, _)| times(low)),
        high_usd: tenths.map(|(_, high)| times(high)),
        at_most_usd: budget.map(|most| usd((nanos(most) - spent).max(0))),
        basis,
    })
}

async fn read(service: &Service, caller: &Caller, group: UsageGroup) -> Result<Page<UsageSum>> {
    let from = service.now() - Millis::from(DAYS) * DAY_MS;
    usage::sums(service, caller, group, None, (from, Millis::MAX), PageAsk { cursor: None, limit: MOST }).await
}

/// Sums of past calls, both in the order of their runs.
struct Past {
    /// By run and model.
    models: Page<UsageSum>,
    /// By run and item.
    items: Page<UsageSum>,
}

impl Past {
    /// The items of runs that asked this model alone, and what a cheap and a dear one of them cost.
    fn of_model(&self, model: &str) -> (CostBasis, Option<(Nanos, Nanos)>) {
        let runs = self.runs_of(model);
        let of_items = self.items.items.iter().filter(|sum| !sum.sub.is_empty() && runs.contains(sum.key.as_str()));
        let (priced, unpriced): (Vec<&UsageSum>, Vec<&UsageSum>) = of_items.partition(|sum| sum.unpriced == 0);
        let mut costs: Vec<Nanos> = priced.iter().map(|sum| sum.cost_nanos).collect();
        costs.sort_unstable();
        let basis = CostBasis {
            days: DAYS,
            items: priced.len() as u64,
            calls: priced.iter().map(|sum| sum.calls).sum(),
            unpriced_items: unpriced.len() as u64,
        };
        let at = |tenths: usize| costs.get((costs.len() * tenths / 10).min(costs.len().saturating_sub(1))).copied();
        (basis, at(1).zip(at(9)))
    }

    /// Of a run at which a page ends it is not known what else it asked.
    fn runs_of(&self, model: &str) -> BTreeSet<&str> {
        let mut models: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for sum in &self.models.items {
            models.entry(&sum.key).or_default().push(&sum.sub);
        }
        if self.models.next_cursor.is_some() {
            models.pop_last();
        }
        models.into_iter().filter(|(_, asked)| asked == &[model]).map(|(run, _)| run).collect()
    }
}

#[cfg(test)]
mod tests;
