//! Whether a run is accepted: its budget can be kept, and a model has room for it.

use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::settings::{Budget, RunSettings};
use crate::provider::gate::Admitted;

const COME_BACK_MS: i64 = 1_000;

/// Refuses a run whose budget cannot be kept, and any while no model that it could ask has room for it. What is
/// accepted waits for its turn; the room is kept until then, as long as the answer is held.
pub(super) fn check(service: &Service, caller: &Caller, settings: &RunSettings) -> Result<Admitted> {
    if let Some(budget) = &settings.budget {
        check_budget(service, budget, settings)?;
    }
    service.runtime.place_at_a_model(caller.tenant, settings).ok_or_else(|| {
        let mut fault =
            Fault::new(Code::ProviderSaturated, "Too many calls wait for the model already; ask again soon.");
        fault.retry_after_ms = Some(COME_BACK_MS);
        fault
    })
}

fn check_budget(service: &Service, budget: &Budget, settings: &RunSettings) -> Result<()> {
    const PLACE: &str = "/options/budget";
    budget.check(PLACE)?;
    let mut choices = (0..).map_while(|n| settings.choice(n));
    let unpriced = choices.find(|(provider, model)| service.runtime.price(provider, model).is_none());
    match (budget.max_cost_usd, unpriced) {
        (Some(_), Some((provider, model))) => {
            let why = format!("`prices` of the server's configuration does not say what {provider}:{model} costs.");
            Err(Fault::new(Code::Invalid, why.clone()).at(format!("{PLACE}/maxCostUsd"), why))
        }
        (Some(_) | None, _) => Ok(()),
    }
}
